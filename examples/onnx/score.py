"""Score pictures by a file of `oddone export`, without oddone: onnxruntime, NumPy and Pillow.

python score.py detector.onnx picture.jpg ...
"""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps


def read_picture(path: str) -> Image.Image:
    """Return a picture as oddone sees it: upright, with 8 bits, transparent parts on white."""
    image = ImageOps.exif_transpose(Image.open(path))
    if image.mode.startswith("I") or image.mode == "F":
        pixels = np.asarray(image)
        most = 1 if image.mode == "F" else 65535
        if not (pixels.min() >= 0 and pixels.max() <= most):
            sys.exit(f"{path}: its pixels are not from 0 to {most}")
        image = Image.fromarray(np.rint(pixels * np.float32(255 / most)).astype(np.uint8))
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    return image.convert("RGB")


model, *pictures = sys.argv[1:]
session = onnxruntime.InferenceSession(model)
metadata = session.get_modelmeta().custom_metadata_map
classes, size = json.loads(metadata["classes"]), json.loads(metadata["image_size"])

for picture in pictures:
    image = read_picture(picture)
    if json.loads(metadata["fixed_size"]):
        image = ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR)
    pixels = np.asarray(image)[None]  # uint8 [1, height, width, 3]
    names = [output.name for output in session.get_outputs()]
    verdict = dict(zip(names, session.run(names, {"images": pixels}), strict=True))
    name = classes[verdict["label"][0]]
    if "anomalous" not in verdict:  # the detector was not calibrated
        name = f"no threshold, most like {name}"
    elif verdict["anomalous"][0]:
        name = "anomalous"
    print(f"{picture}: {name}, score {verdict['score'][0]:.4f}")
