"""See command.py."""

from tools.notebooks.command import main

raise SystemExit(main())
