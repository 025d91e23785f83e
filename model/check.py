"""Check the model: TLC visits each state that its constants allow, and looks whether a promise breaks.

python -m model.check                 all states with three troubles in a history
python -m model.check --troubles 1    a short form
"""

from __future__ import annotations

import argparse
import sys

from model.checking import TROUBLES, ModelError, check, model


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--troubles", type=int, default=TROUBLES, help="crashes, restores, cuts, errors in a history")
    troubles: int = parser.parse_args().troubles
    if troubles < 0:
        parser.error(f"a history cannot have {troubles} troubles: give 0 or more")
    try:
        outcome = check(model(), troubles)
    except ModelError as error:
        print(error, file=sys.stderr)
        return 2
    if outcome.violated:
        print(outcome.said)
        print(f"{outcome.violated} does not hold: the steps that lead there are above")
        return 1
    print(
        f"result: model | {outcome.distinct:,} distinct states, {troubles} troubles at most | each promise holds in all"
    )
    return 0 if outcome.is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
