"""Writes digits/CLASS/NUMBER.png beside this script: 1,797 small pictures for own_pictures.toml."""

from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

digits = load_digits()
for number, (picture, label) in enumerate(zip(digits.images, digits.target, strict=True)):
    folder = Path(__file__).parent / "digits" / str(label)
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray((picture * 15).astype(np.uint8)).save(folder / f"{number:04d}.png")
