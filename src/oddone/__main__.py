"""`python -m oddone` does what the command `oddone` does."""

from oddone.cli import main

if __name__ == "__main__":
    main()
