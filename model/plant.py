"""Plant mistakes in the model, one at a time: each must be refused, by the promise that it breaks.

python -m model.plant          all of them
python -m model.plant fsync    those whose names have this text
"""

from __future__ import annotations

import argparse
import sys

from model.checking import ModelError, check, model
from model.plants import PLANTS, Plant

_TROUBLES = 3  # enough for each of them to show


def mistaken(plant: Plant) -> str:
    """The model with this mistake. Raises ModelError."""
    text = model()
    if text.count(plant.text) != 1:
        raise ModelError(f"{plant.name}: the model has its text {text.count(plant.text)} times, not once")
    return text.replace(plant.text, plant.by)


def is_refused(plant: Plant) -> bool:
    """True if TLC refuses the model with this mistake, by the promise that was named. Raises ModelError."""
    violated = check(mistaken(plant), _TROUBLES, keys=plant.keys).violated
    found = violated in plant.invariant.split()
    said = f"{violated} does not hold" if violated else "nothing breaks"
    print(f"{'refused' if found else 'NOT REFUSED AS IT SHOULD BE'}: {plant.name}: {said}", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", default="", metavar="TEXT", help="only those whose names have this text")
    part: str = parser.parse_args().part
    chosen = [plant for plant in PLANTS if part in plant.name]
    if not chosen:
        print(f"no mistake has {part!r} in its name", file=sys.stderr)
        return 2
    try:
        refused = [is_refused(plant) for plant in chosen]
    except ModelError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"result: model | {len(refused)} planted mistakes | {sum(refused)} refused")
    return 0 if all(refused) else 1


if __name__ == "__main__":
    sys.exit(main())
