"""Score pictures by a file of `oddone export`, without oddone: onnxruntime, NumPy and Pillow.

python score.py detector.onnx picture.jpg ...
"""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

model, *pictures = sys.argv[1:]
session = onnxruntime.InferenceSession(model)
metadata = session.get_modelmeta().custom_metadata_map
classes, size = json.loads(metadata["classes"]), json.loads(metadata["image_size"])

for picture in pictures:
    image = ImageOps.exif_transpose(Image.open(picture)).convert("RGB")
    if json.loads(metadata["fixed_size"]):
        image = ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR)
    pixels = np.asarray(image)[None]  # uint8 [1, height, width, 3]
    names = [output.name for output in session.get_outputs()]
    verdict = dict(zip(names, session.run(names, {"images": pixels}), strict=True))
    anomalous = verdict.get("anomalous", [False])[0]
    print(
        f"{picture}: {'anomalous' if anomalous else classes[verdict['label'][0]]}, "
        f"score {verdict['score'][0]:.4f}"
    )
