"""``python -m deltaberg``."""

from deltaberg.cli.main import main

main()
