"""`python -m salience`: the command line."""

from salience.cli import main

main()
