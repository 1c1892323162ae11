"""The fuzz harness: looks for crashes, hangs, foreign exceptions and wrong numbers, and keeps what it finds as tests.

A tool of the repository, not part of the wheel. From the checkout's root:

    python -m sglab_fuzz all --seconds 120            # every target, a fresh seed, which is printed
    python -m sglab_fuzz front --seconds 60 --seed 7  # one target, again with the same cases
    python -m sglab_fuzz front --guided --seconds 600 # the front end by coverage, in a build of its own with clang
    python -m sglab_fuzz night                        # eight hours on all cores, with a report
    python -m sglab_fuzz replay tests/fuzz/findings/… # one finding again

A target turns (seed, number) into a case, which is a text, and runs it (`target`). Cases run in worker processes
(`worker`), which may crash, hang or eat memory without harm to the search (`search`). What fails is made smaller line
by line (`minimise`) and written below tests/fuzz/findings (`findings`), where tests/fuzz runs it from then on.
"""
