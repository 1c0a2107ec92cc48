"""``python -m fedrulefit``: the command line, where its script is not on the PATH."""

from fedrulefit.cli import main

if __name__ == "__main__":
    main()
