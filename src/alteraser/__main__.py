"""`python -m alteraser` is the command `alteraser`."""

from alteraser.cli.main import main

if __name__ == "__main__":
    main()
