"""A detector as one graph of tensors, for programs that know nothing of oddone.

Its parts are imported by name, as only some need torch: `oddone.export.onnx_detector`, which scores
images by a file that was exported, does not.
"""
