"""Bad input: exit code 2, a message that says what came, what was wanted and what to do; nothing written."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

HEADER = "user_id,item_id,weight\n"
DATA = "zoe-secret,apple,1\nzoe-secret,pear,2\nyves-secret,apple,3\n"
OTHER_COLUMNS = "--user-column user_id --item-column item_id --time-column weight"
FORGET = "forget model data.csv --requests requests.csv --out out --remaining rest.csv"
VERIFY = "verify model --requests requests.csv --key-file key"
TUNE = "tune plain.csv --dim 2 --out out --html page.html"
EVALUATE = "evaluate model data.csv --test data.csv --html page.html"
COMPARE = "compare --data data.csv --requests requests.csv --model a=model --html page.html"


@dataclass(frozen=True)
class Case:
    """A command typed in the workspace, with some files written there before; what the message has to say."""

    command: str
    said: tuple[str, ...]
    files: dict[str, str | bytes | None]


def case(name: str, command: str, *said: str, **files: str | bytes | None) -> Any:
    """Files are named with _ for the dot; None takes one away."""
    named = {file.replace("_", ".").replace("..", "_"): content for file, content in files.items()}
    return pytest.param(Case(command, said, named), id=name)


CASES = [
    case("an empty search space", f"{TUNE} --w0 0.3:0.1", "0.3 to 0.1", "empty search space", "LOW:HIGH"),
    case("a search space without a range", f"{TUNE} --w0 0.3 --l2 0.1", "Every setting is fixed", "--w0"),
    case("a search space that is none", f"{TUNE} --l2 small", "l2 is 'small'", "LOW:HIGH is wanted"),
    case("no trials", f"{TUNE} --trials 0", "trials is 0"),
    case("no time", f"{TUNE} --budget-seconds 0", "budget_seconds is 0"),
    case("a study that is data", f"{TUNE} --study plain.csv", "plain.csv is no study", "--study"),
    case(
        "a settings file with an unknown key",
        "train plain.csv --settings own.toml --out out",
        "'weight' in own.toml: unknown",
        "known are model, trainer, dim",
        own_toml="w0 = 0.1\nweight = 3\n",
    ),
    case(
        "a settings file with a trainer nobody knows",
        "train plain.csv --settings own.toml --out out",
        "'sgd' is not one of 'als', 'newton', 'adamw'",
        own_toml="trainer = 'sgd'\n",
    ),
    case("evaluate without data", "evaluate model --test plain.csv", "DATA is wanted"),
    case("evaluate by nothing", "evaluate model data.csv", "--test", "--holdout"),
    case("evaluate by what was trained on", EVALUATE, "in the training data too", "--holdout"),
    case(
        "a test part without known users",
        EVALUATE.replace("--test data", "--test small"),
        "None of the 3 test interactions",
        "same ids",
        small_csv="member,product\n" + DATA.replace(",1", "").replace(",2", "").replace(",3", ""),
    ),
    case("all held out", "evaluate model data.csv --holdout 1 --html page.html", "between 0 and 1"),
    case(
        "a column that is not there",
        "train small.csv --user-column person --out out",
        "no column 'person'",
        "user_id, item_id, weight",
        "--user-column",
        small_csv=HEADER + DATA,
    ),
    case(
        "a weight column that is not there",
        "train small.csv --weight-column score --out out",
        "no column 'score'",
        "user_id, item_id, weight",
        small_csv=HEADER + DATA,
    ),
    case("no header", "train small.csv --out out", "header", small_csv="1,2\n3,4\n"),
    case("no header but ids", "train small.csv --out out", "is not a header", small_csv=DATA),
    case(
        "ratings of which nobody said which count",
        "train small.csv --out out",
        "--min-rating X",
        "--any-rating",
        small_csv="userId,movieId,Rating\nzoe-secret,apple,1\n",
    ),
    case(
        "two words on ratings",
        "train data.csv --min-rating 3 --any-rating --out out",
        "one of them is wanted",
    ),
    case(
        "a separator that does not fit",
        "train small.csv --separator ; --out out",
        "not split into fields at ';'",
        "3 fields at ','",
        "--separator",
        small_csv=HEADER + DATA,
    ),
    case(
        "a separator that is another than the ending's",
        "train small.csv --out out",
        "not split into fields at ','",
        "3 fields at ';'",
        small_csv=(HEADER + DATA).replace(",", ";"),
    ),
    case(
        "a separator that does not fit, forgetting",
        f"{FORGET} --separator |",
        "not split into fields at '|'",
        "4 fields at ','",
    ),
    case(
        "a separator that cannot be told",
        "data describe small.dat",
        "--separator",
        small_dat="zoe-secret likes apple\nzoe-secret and yves-secret like pear\n",
    ),
    case(
        "a column by its name without a header",
        "train data.csv --no-header --user-column member --out out",
        "1 to 4",
    ),
    case(
        "no header where there is one", "train plain.csv --no-header --out out", "is a header", "--no-header"
    ),
    case("an empty file", "train small.csv --out out", "small.csv is empty", small_csv=""),
    case("a header alone", "train small.csv --out out", "no interactions", small_csv=HEADER),
    case(
        "a user id that is null",
        "train small.csv --out out",
        "1 of 4 user ids are null or NaN",
        "row 4",
        small_csv=HEADER + DATA + ",apple,1\n",
    ),
    case(
        "an item id that is NaN",
        "train small.parquet --out out",
        "1 of 2 item ids are null or NaN",
        small_parquet="nan",
    ),
    case(
        "a negative weight",
        "train small.csv --weight-column weight --out out",
        "1 of 4 weights are negative",
        "row 4",
        small_csv=HEADER + DATA + "zoe-secret,plum,-1\n",
    ),
    case(
        "an infinite weight",
        "train small.csv --weight-column weight --out out",
        "infinite",
        small_csv=HEADER + DATA + "zoe-secret,plum,inf\n",
    ),
    case(
        "a weight that is no number",
        "train small.csv --weight-column weight --out out",
        "not numbers",
        small_csv=HEADER + DATA + "zoe-secret,plum,much\n",
    ),
    case(
        "times that are no times",
        "data describe small.csv --time-column item_id",
        "neither numbers nor ISO dates",
        small_csv=HEADER + DATA,
    ),
    case(
        "a damaged parquet file", "train small.parquet --out out", "could not be read", small_parquet=b"PAR1x"
    ),
    case(
        "a file that is not there",
        "train nothing.csv --out out",
        "nothing.csv",
        "neither a file",
        "synthetic",
    ),
    case("a file of an unknown kind", "train small.xls --out out", ".parquet", small_xls="a"),
    case("a folder as data", "data describe model", "is a folder"),
    case(
        "a data set that is not found",
        "train ml-1m --out out --data-dir elsewhere",
        "places looked in: elsewhere/ml-1m/interactions.parquet",
        "alteraser data fetch ml-1m",
        "--data-dir",
        "ALTERASER_DATA",
    ),
    case("filters that leave nothing", "train plain.csv --min-interactions 999 --out out", "None of the"),
    case("a core of 0", "data describe plain.csv --min-interactions 0", "min_interactions is 0"),
    case("an unknown way to merge", "data describe plain.csv --merge mean", "mean", "'max', 'sum', 'last'"),
    case("a negative weight", "data describe plain.csv --weight-slope -1", "weight_slope is -1.0"),
    case("last without times", "train small.csv --merge last --out out", "time", small_csv=HEADER + DATA),
    # training
    case(
        "more dimensions than memory",
        "train small.csv --dim 2000000 --out out",
        "not enough memory",
        "--dim",
        small_csv=HEADER + DATA,
    ),
    case("dim 0", "train plain.csv --dim 0 --out out", "dim is 0"),
    case("dim that is no number", "train plain.csv --dim many --out out", "--dim", "integer"),
    case("l2 0", "train plain.csv --l2 0 --out out", "l2 is 0", "above 0"),
    case("l2 infinite", "train plain.csv --l2 inf --out out", "l2 is inf"),
    case("w0 negative", "train plain.csv --w0 -1 --out out", "w0 is -1"),
    case("l2 scaling NaN", "train plain.csv --l2-scaling nan --out out", "l2_scaling is nan"),
    case("a negative limit", "train plain.csv --max-passes -1 --out out", "max_passes is -1"),
    case("a negative limit of adamw", "train plain.csv --trainer adamw --max-passes -1 --out out", "-1"),
    case("a tolerance NaN", "train plain.csv --tolerance nan --out out", "tolerance nan"),
    case("a tolerance NaN of adamw", "train plain.csv --trainer adamw --tolerance nan --out out", "nan"),
    case(
        "a learning rate of 0",
        "train plain.csv --trainer adamw --learning-rate 0 --out out",
        "learning_rate 0",
    ),
    case("a learning rate for als", "train plain.csv --learning-rate 0.1 --out out", "setting of adamw"),
    case("h of mf", "train plain.csv --model mf --solve-h --out out", "--solve-h", "enmf"),
    case("a negative seed", "train plain.csv --seed -1 --out out", "--seed is -1"),
    case("an unknown model", "train plain.csv --model svd --out out", "svd", "'enmf', 'mf'"),
    case("an unknown trainer", "train plain.csv --trainer sgd --out out", "sgd", "'als', 'newton', 'adamw'"),
    case("no output", "train plain.csv", "--out"),
    case("an option that is not known", "train plain.csv --out out --dimension 3", "--dimension"),
    case("an output that is there", "train plain.csv --out model", "model is there already", "--force"),
    case("an output that is a file", "train plain.csv --out data.csv --force", "data.csv is a file"),
    case(
        "another folder as output", "train plain.csv --out full --force", "holds something else", full_x="1"
    ),
    case("an output nowhere", "train plain.csv --out no/where", "folder no is not there"),
    # splitting and converting
    case(
        "a fraction above 1", "data split plain.csv --fraction 2 --train a.csv --test b.csv", "fraction is 2"
    ),
    case(
        "a fraction NaN", "data split plain.csv --fraction nan --train a.csv --test b.csv", "fraction is nan"
    ),
    case(
        "a fraction of the last",
        "data split data.csv --time-column day --how last --fraction 7 --train a.csv --test b.csv",
        "--fraction is a setting of",
    ),
    case("one file for two parts", "data split plain.csv --train a.csv --test ./a.csv", "same file"),
    case(
        "an unknown split",
        "data split plain.csv --how half --train a.csv --test b.csv",
        "'random', 'time', 'last'",
    ),
    case(
        "a split that is there",
        "data split plain.csv --train a.csv --test data.csv",
        "data.csv is there already",
    ),
    case("a split in no format", "data split plain.csv --train a.csv --test b.txt", ".csv or .parquet"),
    case(
        "a conversion that is there", "data convert plain.csv requests.csv", "requests.csv is there already"
    ),
    case("a conversion to no format", "data convert plain.csv out.json", ".csv or .parquet"),
    # forgetting
    case(
        "an unknown user",
        FORGET,
        "1 of 2 requests",
        "requests.csv line 3",
        requests_csv="user\nperson-002@mail.example\nzoe-secret\n",
    ),
    case("an unknown item", FORGET, "requests.csv line 2", "--missing ignore", requests_csv="item\nplum\n"),
    case(
        "an unknown pair",
        FORGET,
        "requests.csv line 2",
        requests_csv="user,item\nperson-001@mail.example,Thing 99\n",
    ),
    case(
        "a period that holds nothing",
        FORGET,
        "requests.csv line 2",
        requests_csv="user,from,to\nperson-001@mail.example,1999-01-01,1999-02-01\n",
    ),
    case(
        "a period that ends before it starts",
        FORGET,
        "requests.csv line 2",
        requests_csv="user,from,to\nperson-001@mail.example,2024-02-01,2024-01-01\n",
    ),
    case(
        "a request for nobody",
        FORGET,
        "requests.csv line 2",
        "neither a user nor an item",
        requests_csv='user,item\n"",\n',
    ),
    case("requests without a header", FORGET, "header", requests_csv="person-001@mail.example,Thing 03\n"),
    case(
        "a misspelt condition",
        FORGET,
        "column 2",
        "user, item",
        requests_csv="user,itme\nperson-001@mail.example,x\n",
    ),
    case("no requests", FORGET, "no requests", requests_csv="user,item\n"),
    case("an empty request file", FORGET, "requests.csv", requests_csv=""),
    case("no request file", FORGET, "requests.csv could not be opened", requests_csv=None),
    case(
        "requests that are not JSON",
        FORGET.replace("requests.csv", "requests.jsonl"),
        "requests.jsonl line 2",
        requests_jsonl='{"user": "person-001@mail.example"}\n{"user": zoe-secret}\n',
    ),
    case("nothing would remain", FORGET, "nothing would remain", requests_csv="everyone"),
    case(
        "other data than the model's",
        f"{FORGET} {OTHER_COLUMNS}",
        "not in the model",
        data_csv=HEADER + DATA,
    ),
    case("less data than the model's", FORGET, "not what this model was trained on", data_csv="half"),
    case(
        "an output that is there, forgetting",
        FORGET.replace("--out out", "--out model"),
        "model is there already",
        "--force",
    ),
    case(
        "remaining data that is there",
        FORGET.replace("rest.csv", "data.csv"),
        "data.csv is there already",
        "--force",
    ),
    case("remaining data in no format", FORGET.replace("rest.csv", "rest.json"), ".data or .parquet"),
    case("remaining data in the model", FORGET.replace("rest.csv", "out/rest.csv"), "--remaining lies in"),
    case("an unknown method", FORGET + " --method magic", "magic", "'alteraser', 'retrain', 'warm-start'"),
    case("an unknown solver", FORGET + " --solver magic", "magic", "'ah-newton', 'hf-newton'", "'adamw'"),
    case("a solver for retraining", FORGET + " --method retrain --solver adamw", "--solver", "retrain"),
    case("a trainer for alteraser", FORGET + " --trainer adamw", "--trainer", "alteraser"),
    case("a learning rate for alteraser", FORGET + " --learning-rate 0.1", "--learning-rate", "alteraser"),
    case(
        "a scope for retraining",
        FORGET + " --method retrain --scope affected",
        "--scope is a setting of alteraser",
    ),
    case(
        "a budget of nothing",
        FORGET + " --budget-seconds 0",
        "budget_seconds is 0",
    ),
    case(
        "a solver beside the affected scope",
        FORGET + " --scope affected --solver hf-newton",
        "solver came with scope 'affected'",
    ),
    case(
        "a learning rate for als, retraining",
        FORGET + " --method retrain --learning-rate 0.1",
        "--learning-rate is a setting of adamw",
    ),
    case(
        "h with adamw, retraining",
        FORGET + " --method retrain --trainer adamw --solve-h",
        "--solve-h is a setting of als",
    ),
    case("a negative limit, retraining", FORGET + " --method retrain --max-passes -1", "max_passes is -1"),
    case("a negative limit, forgetting", FORGET + " --max-passes -1", "max_passes is -1"),
    case("a negative tolerance, forgetting", FORGET + " --tolerance -1", "tolerance"),
    case("an unknown way with missing ones", FORGET + " --missing maybe", "maybe", "'error', 'ignore'"),
    case("no key file", FORGET + " --key-file none.key", "none.key could not be read"),
    case("a short key", FORGET + " --key-file short.key", "5 bytes", "16", short_key="short"),
    # verifying
    case("no key file, verifying", VERIFY, "key could not be read"),
    case("a short key, verifying", VERIFY, "5 bytes", "16", key="short"),
    case("no requests to verify", VERIFY, "no requests", requests_csv="user\n", key="k" * 16),
    case(
        "a model that is none, verifying", VERIFY.replace("model", "data.csv"), "is not a model", key="k" * 16
    ),
    # models
    case("a model that is a file", "recommend data.csv --user x", "is not a model", "alteraser train"),
    case("a model that is not there", "recommend nothing --user x", "nothing is not a model"),
    case("a folder that is no model", "similar full --item x", "full is not a model", full_x="1"),
    case("a damaged manifest", "similar broken --item x", "manifest.json is damaged", broken_manifest="{"),
    case(
        "a changed manifest",
        "similar broken --item x",
        "was changed after it was written",
        broken_manifest="tamper",
    ),
    case(
        "damaged parameters",
        "similar broken --item x",
        "parameters.safetensors is damaged",
        broken_parameters="flip",
    ),
    case("parameters that are gone", "similar broken --item x", "could not be read", broken_parameters=None),
    # recommending
    case(
        "an unknown user to recommend to", "recommend model --user zoe-secret", "The user is not in the model"
    ),
    case(
        "unknown users in a file",
        "recommend model --users u.csv --out lists.csv",
        "1 of 2 users in u.csv",
        "row 2",
        u_csv="user_id\nperson-003@mail.example\nzoe-secret\n",
    ),
    case(
        "a file without users",
        "recommend model --users u.csv --out lists.csv",
        "user_id",
        u_csv="zoe-secret\nyves-secret\n",
    ),
    case("nobody to recommend to", "recommend model", "--user ID", "--users FILE"),
    case("an item that is not known", "similar model --item plum", "The item is not in the model"),
    case("k 0", "recommend model --user person-003@mail.example -k 0", "k is 0"),
    case("k 0 of similar items", "similar model --item 'Thing 01' -k 0", "k is 0"),
    case(
        "lists that are there",
        "recommend model --user person-003@mail.example --out data.csv",
        "there already",
    ),
    case(
        "lists in no format",
        "recommend model --user person-003@mail.example --out lists.txt",
        ".csv or .parquet",
    ),
    case(
        "other data to exclude",
        f"recommend model --user person-003@mail.example --exclude small.csv {OTHER_COLUMNS}",
        "None of the 3",
        small_csv=HEADER + DATA,
    ),
    # comparing
    case(
        "a model without a name", COMPARE.replace("a=model", "model"), "NAME=PATH", "--model original=model"
    ),
    case("a name without a model", COMPARE.replace("a=model", "a="), "NAME=PATH"),
    case("two models of one name", COMPARE + " --model a=model", "'a'"),
    case("a reference that is no model", COMPARE + " --reference b", "'b'", "(a)"),
    case("no model to compare", "compare --data data.csv --requests requests.csv", "--model"),
    case(
        "data of other models",
        f"{COMPARE} {OTHER_COLUMNS}",
        "The model a knows",
        data_csv=HEADER + DATA,
    ),
    case("less data than the models'", COMPARE, "None of the models", "--data", data_csv="one less"),
    case(
        "test data of other models",
        COMPARE + " --test test.csv",
        "None of the 1 test",
        test_csv="member,product,day\nzoe-secret,apple,2024-01-01\n",
    ),
    case("a page that is there", COMPARE.replace("page.html", "data.csv"), "data.csv is there already"),
    case(
        "requests that match nothing, comparing",
        COMPARE,
        "requests.csv line 2",
        requests_csv="user\nzoe-secret\n",
    ),
    case("a demo that is there", "demo --out model", "model is there already", "--force"),
    case("a command that is not known", "unlearn model", "unlearn"),
]


@pytest.mark.parametrize("wrong", CASES)
def test_it_is_refused_and_nothing_is_written(
    run: Callable[..., Any],
    workspace: Path,
    tree: Callable[[Path], dict[str, bytes | None]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wrong: Case,
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(workspace, tmp_path, dirs_exist_ok=True)
    for name, content in wrong.files.items():
        spoil(name, content)
    before = tree(tmp_path)
    ran = run(*shlex.split(wrong.command))
    assert ran.code == 2, ran.err
    assert ran.out == ""
    for text in wrong.said:
        assert text in ran.err
    # Ids that the user typed as a misspelt option may come back; those in files and data may not.
    assert "person-" not in ran.err
    assert "secret" not in ran.err
    assert "Traceback" not in ran.err
    assert tree(tmp_path) == before


def spoil(name: str, content: str | bytes | None) -> None:
    """Write a file of a case; some need more than text."""
    if name.startswith("broken"):
        shutil.copytree("model", "broken")
        file = Path("broken", "manifest.json" if name == "broken.manifest" else "parameters.safetensors")
        if content is None:
            file.unlink()
        elif content == "tamper":
            file.write_text(file.read_text().replace('"dim": 4', '"dim": 5'))
        elif content == "flip":
            whole = bytearray(file.read_bytes())
            whole[-1] ^= 1
            file.write_bytes(whole)
        else:
            file.write_text(str(content))
    elif name == "full.x":
        Path("full").mkdir()
        Path("full", "x").write_text(str(content))
    elif content is None:
        Path(name).unlink()
    elif content == "nan":
        pl.DataFrame({"user_id": [1, 2], "item_id": [1.0, float("nan")]}).write_parquet(name)
    elif content == "one less":
        pl.read_csv("data.csv", infer_schema=False)[:-1].write_csv("data.csv")
    elif content == "half":
        table = pl.read_csv("data.csv", infer_schema=False)
        table.head(len(table) // 2).write_csv("data.csv")
    elif content == "everyone":
        pl.read_csv("data.csv").select(user="member").unique().write_csv(name)
    elif isinstance(content, bytes):
        Path(name).write_bytes(content)
    else:
        Path(name).write_text(content)
