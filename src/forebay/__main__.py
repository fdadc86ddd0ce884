"""`python -m forebay` is the `forebay` command."""

from forebay.cli import main

if __name__ == "__main__":
    main()
