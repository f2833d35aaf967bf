"""The size of every tensor of an ONNX model: dynamic dimensions bound, the rest inferred by onnx itself.

Source: the shape inference of the ONNX operators, with what it propagates of values that are sizes.
"""

from lpkit.checks import shown, whole_number
from lpkit.interop.lowering import Sample
from lpkit.interop.onnx_model import STANDARD, first_line

__all__ = ["bind_inputs", "tensor_sizes"]

LARGEST_DIMENSION = 2**40


def bind_inputs(graph, *, batch_dimension=0, batch_size=1, dimensions=None):
    """Fix the sizes of the inputs of `graph` in place, and say where the samples are.

    Parameters
    ----------
    graph : onnx.GraphProto
    batch_dimension : int or None
        Which dimension of the inputs counts samples; None if none does.
    batch_size : int
        What a dynamic batch is bound to.
    dimensions : dict, optional
        Names of dynamic dimensions with their sizes, or of inputs with all of theirs.

    Returns
    -------
    Sample

    Raises
    ------
    ValueError
        If an input is no tensor, has no sizes, or leaves a dimension open; the sentence names it.
    """
    dimensions = _checked_dimensions(dimensions, graph)
    axis = None if batch_dimension is None else whole_number(batch_dimension, "batch_dimension", least=0, most=7)
    batch_size = whole_number(batch_size, "batch_size")
    if not graph.input:
        raise ValueError("the model has no input that is not a weight; nothing flows through it")
    shapes = [_dims(value, dimensions) for value in graph.input]
    known = dict(dimensions) | _batch_names(shapes, axis, batch_size)
    for value, dims in zip(graph.input, shapes):
        fixed = [_bound(value, place, dim, known, batch_size if place == axis and len(dims) > 1 else None)
                 for place, dim in enumerate(dims)]
        _write(value, fixed)
    for dims in (input_sizes(value) for value in graph.input):
        if axis is not None and len(dims) > axis:
            return Sample(dims[axis], axis)
    return Sample()


def _checked_dimensions(dimensions, graph):
    """Dynamic dimensions {name: size}, and {input: sizes}, as they are asked for."""
    given = {} if dimensions is None else dimensions
    if not isinstance(given, dict):
        raise ValueError(f"dimensions is {shown(given)}; it must map names to sizes, as in {{'height': 224}}")
    inputs = {value.name for value in graph.input}
    symbols = {dim.dim_param for value in graph.input for dim in value.type.tensor_type.shape.dim}
    for name, size in given.items():
        if name not in inputs | symbols:
            known = ", ".join(map(shown, sorted(filter(None, inputs | symbols))[:8]))
            raise ValueError(f"dimensions names {shown(name)}, which is no input and no dynamic dimension of the "
                             f"model; it has {known}")
    return {name: [_size(n, name) for n in size] if isinstance(size, (tuple, list)) else _size(size, name)
            for name, size in given.items()}


def _size(number, name):
    return whole_number(number, f"the size of {shown(name)}", most=LARGEST_DIMENSION)


def _dims(value, dimensions):
    """Sizes of an input: numbers, names of dynamic dimensions, None for those without a name."""
    if not value.type.HasField("tensor_type"):
        raise ValueError(f"input {shown(value.name)} is no tensor (a {value.type.WhichOneof('value') or 'nothing'}); "
                         "only models on tensors are read")
    given = dimensions.get(value.name)
    tensor = value.type.tensor_type
    if isinstance(given, list):
        if tensor.HasField("shape") and len(tensor.shape.dim) != len(given):
            raise ValueError(f"dimensions gives input {shown(value.name)} {len(given)} sizes; it has "
                             f"{len(tensor.shape.dim)} dimensions")
        return given
    if not tensor.HasField("shape"):
        raise ValueError(f"input {shown(value.name)} has no sizes in the model; give them, as in "
                         f"dimensions={{{shown(value.name)}: [1, 3, 224, 224]}}")
    return [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor.shape.dim]


def _batch_names(shapes, axis, batch_size):
    """The names that the dynamic batch has."""
    places = [dims[axis] for dims in shapes if axis is not None and axis < len(dims) and len(dims) > 1]
    return {name: batch_size for name in places if isinstance(name, str)}


def _bound(value, place, dim, known, batch):
    if isinstance(dim, int) and 1 <= dim <= LARGEST_DIMENSION:
        return dim
    if isinstance(dim, int):
        raise ValueError(f"dimension {place} of input {shown(value.name)} is {dim}; it must be a whole number from 1")
    if isinstance(known.get(dim), int):
        return known[dim]
    if dim is None and batch is not None:
        return batch
    named, example = (f" ({shown(dim)})", shown(dim)) if dim else ("", shown(value.name))
    size = "224" if dim else "[1, 3, 224, 224]"
    raise ValueError(f"input {shown(value.name)} leaves dimension {place}{named} open; give it a size, as in "
                     f"dimensions={{{example}: {size}}}")


def _write(value, sizes):
    shape = value.type.tensor_type.shape
    shape.Clear()
    shape.SetInParent()  # a tensor of no dimension has a shape too
    for size in sizes:
        shape.dim.add().dim_value = size


def input_sizes(value):
    """Sizes of a tensor of the model, or None where they are not all known.

    Examples
    --------
    >>> from onnx import helper
    >>> input_sizes(helper.make_tensor_value_info("x", 1, [1, 3]))
    (1, 3)
    """
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not tensor.HasField("shape"):
        return None
    sizes = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim)
    return sizes if all(0 <= n <= LARGEST_DIMENSION for n in sizes) else None


def tensor_sizes(model, onnx):
    """{tensor: sizes} and {tensor: element type} of all that onnx can infer, from inputs whose sizes are fixed.

    Returns
    -------
    sizes, types : dict
    why : str
        What onnx says where sizes contradict each other; empty if they do not.
    """
    _forget(model)
    try:
        inferred, why = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True), ""
    except Exception as error:  # the package raises what its C++ raises
        inferred, why = _lenient(model, onnx), first_line(error)
    sizes, types = {}, {}
    for tensor in inferred.graph.initializer:
        sizes[tensor.name], types[tensor.name] = tuple(tensor.dims), tensor.data_type
    for value in (*inferred.graph.input, *inferred.graph.value_info, *inferred.graph.output):
        sizes[value.name], types[value.name] = input_sizes(value), value.type.tensor_type.elem_type
    return {name: dims for name, dims in sizes.items() if dims is not None}, types, why


def _lenient(model, onnx):
    try:
        return onnx.shape_inference.infer_shapes(model, strict_mode=False, data_prop=True)
    except Exception as error:
        raise ValueError(f"the sizes of the tensors cannot be inferred: {first_line(error)}") from None


def _forget(model):
    """Drop sizes that the file states of tensors inside: they are of another batch, where it was dynamic."""
    custom = {name for node in model.graph.node if node.domain not in STANDARD for name in node.output}
    stated = [value for value in model.graph.value_info if value.name in custom]
    del model.graph.value_info[:]
    model.graph.value_info.extend(stated)
    for value in model.graph.output:
        if value.name not in custom:
            value.ClearField("type")
