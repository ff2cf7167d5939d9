"""Every exception the package raises on purpose.

    AlteraserError
    ├── DataError               interactions that cannot be used as they came
    │   ├── ColumnError           a column is missing or of the wrong kind
    │   ├── DatasetNotFound       a named data set is in none of the places looked in
    │   └── DownloadError         a named data set could not be downloaded whole
    ├── RequestError            a request to forget that cannot be honoured as it stands
    │   ├── UnknownInteractions   it names users, items or pairs that are not in the data
    │   └── NothingRemains        it would leave no data to learn from
    ├── ModelError              a model that cannot be used
    │   ├── ModelFileError        its files are damaged, incomplete or of an unknown version
    │   └── MismatchError         it does not belong to this data
    ├── SettingError            a setting out of its range
    ├── MissingExtra            a package that is installed only on request is not there
    ├── OutputExists            writing would replace something
    └── WriteError              a file could not be written (disk full, no permission)
        └── LeftBehind            all was written, but what it replaces could not be removed

Messages say what came, what was wanted and what to do. They never hold an id or an interaction of a person:
a request is named by its file and line.
"""


class AlteraserError(Exception):
    """Base of all the package's own errors; the command answers them with exit code 2."""


class DataError(AlteraserError):
    """Interactions that cannot be used as they came."""


class ColumnError(DataError):
    """A column is missing or of the wrong kind."""


class DatasetNotFound(DataError):
    """A named data set is in none of the places looked in."""


class DownloadError(DataError):
    """A named data set could not be downloaded whole."""


class RequestError(AlteraserError):
    """A request to forget that cannot be honoured as it stands."""


class UnknownInteractions(RequestError):
    """A request names users, items or pairs that are not in the data."""


class NothingRemains(RequestError):
    """A deletion would leave no data to learn from."""


class ModelError(AlteraserError):
    """A model that cannot be used."""


class ModelFileError(ModelError):
    """A model's files are damaged, incomplete or of an unknown version."""


class MismatchError(ModelError):
    """A model and data that do not belong together."""


class SettingError(AlteraserError, ValueError):
    """A setting out of its range."""


class MissingExtra(AlteraserError):
    """A package that is installed only on request is not there."""


class OutputExists(AlteraserError):
    """Writing would replace something that is there already."""


class WriteError(AlteraserError):
    """A file could not be written (disk full, no permission)."""


class LeftBehind(WriteError):
    """All was written and is in place, but what it replaces could not be removed."""
