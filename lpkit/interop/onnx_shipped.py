"""Models to try the ONNX reader on: nine image networks that come inside the package onnx, without weights.

They are the test data of onnx itself (its folder ``backend/test/data/light``), so that nothing is downloaded.
"""

import os
from pathlib import Path

from lpkit.checks import unknown_name
from lpkit.interop.onnx_model import onnx_package

__all__ = ["SHIPPED", "model_path"]

SHIPPED = ("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet",
           "vgg19", "zfnet512")


def model_path(model):
    """Path of the model file: of one of `SHIPPED` by its name, else `model` itself, which must then be a path.

    Raises
    ------
    ValueError
        If it is a name of none of them, or onnx is not installed.

    Examples
    --------
    >>> model_path("vgg19").name, model_path("folder/mine.onnx").name
    ('light_vgg19.onnx', 'mine.onnx')
    """
    if str(model).endswith(".onnx") or os.path.dirname(str(model)):
        return Path(model)
    if model not in SHIPPED:
        raise unknown_name(model, "model", SHIPPED)
    return Path(onnx_package().__file__).parent / "backend" / "test" / "data" / "light" / f"light_{model}.onnx"
