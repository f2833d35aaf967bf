"""A plan back from its JSON file: the same costs, stages and moved work, to the last digit, or one clear sentence.

Nothing of the file is believed that can be worked out again: loads, period, bytes and the table of stages are compared
with those of the plan, and a certificate is kept only if planning again gives it.
"""

import math
from dataclasses import replace

from lpkit.checks import shown, whole_number
from lpkit.costs import Costs
from lpkit.jsonfile import exact, from_exact, read_json
from lpkit.networks import Network
from lpkit.optimal import optimal
from lpkit.planfile import COLUMNS, SCHEMA, UNEQUAL, certificate_dict, described
from lpkit.plans import Plan
from lpkit.unequal import wrong_processors

__all__ = ["check_plan_of", "from_dict", "read_plan"]

CLOSE = 1e-9  # relative, of floats that were added up in another order
OF_ORDER = ("the certificate is for this order of the layers; the search of all orders is not repeated, as the file "
            "does not hold their graph")
PARTS = ("planner", "processors", "ends", "moved", "links", "options", "notes")


def read_plan(path):
    """The plan in a JSON file of `lpkit.planfile.write_plan`.

    A certificate is kept if `optimal` gives the same one for these costs; else it is left out, and a note says why.
    That of a plan over all orders of the layers is replaced by that of its order, as the file does not hold the graph.
    Keys that a plan does not have say nothing.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, it is no JSON or was cut off, or it does not hold a plan: the sentence begins with the
        file and names the entry.

    Examples
    --------
    >>> import tempfile, pathlib, lpkit as lp
    >>> made = lp.plan(lp.costs("sample4"), 3)
    >>> again = read_plan(lp.write_plan(made, pathlib.Path(tempfile.mkdtemp()) / "plan.json"))
    >>> again.ends == made.ends, again.moved == made.moved, again.certificate == made.certificate
    (True, True, True)
    """
    document = read_json(path)
    try:
        return from_dict(document)
    except ValueError as error:
        raise ValueError(f"{str(path)!r}: {error}") from None


def from_dict(document):
    """The plan that `lpkit.planfile.to_dict` wrote.

    Raises
    ------
    ValueError
        As `read_plan`, without the name of a file.

    Examples
    --------
    >>> from lpkit.costs import Costs
    >>> from lpkit.partition import plan
    >>> from lpkit.planfile import to_dict
    >>> made = plan(Costs.from_times([4, 2, 2], 0, 0, unit="cycles"), 2)
    >>> from_dict(to_dict(made)).loads == made.loads
    True
    """
    _check_schema(document)
    costs = _costs(document)
    values = {name: _entry(document, name, kind) for name, kind in
              zip(PARTS, (str, int, list, list, list, dict, list))}  # fmt: skip
    processors = whole_number(values["processors"], "processors")
    ends = _ends(values["ends"], len(costs), processors)
    moved = tuple(_move(entry, f"moved[{place}]", costs, len(ends)) for place, entry in enumerate(values["moved"]))
    _check_amounts(moved, costs)
    links = tuple(_time(time, f"links[{place}]") for place, time in enumerate(values["links"]))
    if len(links) not in (0, len(ends) - 1):
        raise ValueError(f"links has {len(links)} entries; give none, or one for each of {len(ends) - 1} boundaries")
    options = tuple((name, _option(value, name)) for name, value in values["options"].items())
    notes = tuple(_text(note, f"notes[{place}]") for place, note in enumerate(values["notes"]))
    plan = Plan(values["planner"], costs, processors, ends, moved, notes, links=links, options=options,
                **_unequal(document))
    if problems := wrong_processors(plan):
        raise ValueError(f"{problems[0]}; correct it")
    _entry(document, "loads", list)
    _compare(described(plan), document)
    return _certified(plan, _entry(document, "certificate", dict) if document.get("certificate") is not None else None)


def _check_schema(document):
    if not isinstance(document, dict):
        raise ValueError(f"it holds {_kind(document)}, not a plan; give a file that lpkit plan --export wrote")
    schema = document.get("schema")
    if schema == "lpkit-plan-1":
        raise ValueError("its schema is 'lpkit-plan-1', which holds no costs; make the plan again with this version")
    if schema != SCHEMA:
        raise ValueError(f"its schema is {shown(schema)}; a plan has the schema {SCHEMA!r}")


def _entry(document, name, kind):
    """An entry of the document, of the Python type `kind`."""
    if name not in document:
        raise ValueError(f"there is no {name!r}; the file may have been cut off or changed")
    value = document[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{name} is {_kind(value)}; it must be {_kind(kind())}")
    return _text(value, name) if kind is str else value


def _kind(value):
    """A JSON value as a message calls it."""
    names = {dict: "an object", list: "a list", str: "text", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")


def _text(value, name):
    if not isinstance(value, str):
        raise ValueError(f"{name} is {_kind(value)}; it must be text")
    if any("\ud800" <= character <= "\udfff" for character in value):  # half a character: no file can hold it
        raise ValueError(f"{name} is {shown(value)}, which is not Unicode text; write it again")
    return value


def _costs(document):
    """The costs: every column a list of numbers, as many as layers; their values are checked by `Costs`."""
    columns = _entry(document, "costs", dict)
    layers = tuple(_text(name, f"layers[{place}]") for place, name in enumerate(_entry(document, "layers", list)))
    found = {name: _column(columns, name) for name in COLUMNS}
    size = from_exact(columns.get("bytes_per_element"), "bytes_per_element")
    if size <= 0:
        raise ValueError(f"bytes_per_element is {shown(size)}; it must be above 0")
    return Costs(_entry(document, "model", str), layers, **found, unit=_entry(document, "unit", str),
                 source=_entry(document, "cost_source", str), bytes_per_element=size)  # fmt: skip


def _column(columns, name):
    allowed = (bool,) if name == "shared_input" else (int, float)
    values = _entry(columns, name, list)
    for place, value in enumerate(values):
        if not isinstance(value, allowed) or isinstance(value, bool) != (allowed == (bool,)):
            kind = "true or false" if allowed == (bool,) else "a number"
            raise ValueError(f"{name}[{place}] is {shown(value)}; it must be {kind}")
    return values


def _ends(values, layers, processors):
    ends = tuple(whole_number(end, f"ends[{place}]", least=0, most=layers) for place, end in enumerate(values))
    if not ends or ends[-1] != layers or list(ends) != sorted(ends):
        raise ValueError(f"ends is {shown(values)}; stage ends must not fall and must finish with {layers}, the number "
                         "of layers")  # fmt: skip
    if len(ends) > processors:
        raise ValueError(f"there are {len(ends)} stages for {processors} processors; correct one of them")
    return ends


def _move(entry, name, costs, stages):
    """One move as the tuple of a plan."""
    if not isinstance(entry, dict):
        raise ValueError(f"{name} is {_kind(entry)}; it must be an object with layer, from, to and amount")
    if missing := [key for key in ("layer", "from", "to", "amount") if key not in entry]:
        raise ValueError(f"{name} has no {missing[0]!r}; it needs layer, from, to and amount")
    layer = whole_number(entry["layer"], f"layer of {name}", most=len(costs))
    source, target = (whole_number(entry[key], f"{key!r} of {name}", most=stages) for key in ("from", "to"))
    return layer, source, target, from_exact(entry["amount"], f"amount of {name}")


def _check_amounts(moved, costs):
    """Refuse work that is not there to move. Where it may go is a question for whoever runs the plan."""
    for layer, source, target, amount in moved:
        delta = costs.delta[layer - 1].item()
        total = sum(move[3] for move in moved if move[0] == layer)
        if amount <= 0 or total > delta:
            raise ValueError(f"layer {layer} moves {shown(total)} of {shown(delta)} delta work from stage {source} to "
                             f"{target}; give more than 0 and at most all of it")  # fmt: skip


def _time(value, name):
    time = from_exact(value, name)
    if time < 0:
        raise ValueError(f"{name} is {shown(time)}; it must be at least 0")
    return time


def _unequal(document):
    """Speeds or replicas of the stages, where the document has them."""
    readers, found = dict(zip(UNEQUAL, (_time, whole_number, whole_number, _time))), {}
    for name, read in readers.items():
        values = _entry(document, name, list) if name in document else []
        found[name] = tuple(read(value, f"{name}[{place}]") for place, value in enumerate(values))
    return found


def _option(value, name):
    if name == "together":
        return _runs(value)
    if value is True or value is None or (isinstance(value, str) and "/" not in value):
        return math.inf if value == "inf" else value
    return [from_exact(v, name) for v in value] if isinstance(value, list) else from_exact(value, name)


def _runs(value):
    """The runs of layers of the option ``together``."""
    pairs = value if isinstance(value, list) else [value]
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise ValueError(f"together is {shown(value)}; it must be a list of pairs (first, last) of layer numbers")
    return tuple(tuple(whole_number(end, "a layer of together") for end in pair) for pair in pairs)


def _compare(found, stored, where=""):
    """Raise where the document says of the plan what is not so."""
    for key, value in found.items():
        if key in stored and not _same(value, stored[key]):
            for mine, theirs, place in _rows(value, stored[key]):
                _compare(mine, theirs, f" of {key}[{place}]")
            raise ValueError(f"{key}{where} is {shown(stored[key])}; the rest of the file gives {shown(value)}")


def _rows(found, stored):
    """Rows at the same place of two tables, and the place."""
    if not isinstance(found, list) or not isinstance(stored, list) or len(found) != len(stored):
        return []
    rows = all(isinstance(row, dict) for row in (*found, *stored))
    return [(mine, theirs, place) for place, (mine, theirs) in enumerate(zip(found, stored))] if rows else []


def _same(found, stored):
    """Whether two JSON values are equal, floats to `CLOSE`."""
    if isinstance(found, dict) and isinstance(stored, dict):
        return all(key in stored and _same(value, stored[key]) for key, value in found.items())
    if isinstance(found, list) and isinstance(stored, list):
        return len(found) == len(stored) and all(map(_same, found, stored))
    if isinstance(found, float) and isinstance(stored, (int, float)):
        return math.isclose(found, stored, rel_tol=CLOSE, abs_tol=1e-300)
    return type(found) is type(stored) and found == stored


def _certified(plan, stored):
    """The plan with the certificate that planning again gives, if the file has the same one; else with a note."""
    if stored is None:
        return plan
    again, of_order = _again(plan), plan.planner == "optimal_graph"
    if again is None:
        why = "these costs and options give no optimal plan"
    elif not _same(exact(again.period), exact(plan.period)):
        why = f"the optimal period is {again.period}"
    elif not of_order and not _same(certificate_dict(again.certificate) | {"text": ""}, stored | {"text": ""}):
        why = "planning again gives another one"
    else:
        said = of_order and not _same(certificate_dict(again.certificate), stored)
        return replace(plan, certificate=again.certificate, notes=plan.notes + (OF_ORDER,) * said)
    return replace(plan, notes=(*plan.notes, f"the certificate in the file is left out: {why}"))


def _again(plan):
    """The optimal plan for the same costs, processors and options; None where there is none."""
    try:
        return optimal(plan.costs, plan.processors, **dict(plan.options))
    except (TypeError, ValueError):
        return None


def check_plan_of(plan, found):
    """Raise if `plan` was not made for the costs, or the network, at hand.

    Parameters
    ----------
    plan : Plan
    found : Costs or Network
        Costs must be equal in layers and in every column; a network must have the layers of the plan.

    Raises
    ------
    ValueError
        If they differ: the sentence names the layer and both values.

    Examples
    --------
    >>> import lpkit as lp
    >>> made = lp.plan(lp.costs("sample4"), 2)
    >>> check_plan_of(made, lp.costs("sample4"))
    >>> check_plan_of(made, lp.costs("sample4", batch=64))  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ...
    ValueError: the plan has F 1204506 for layer 'conv1', and 'sample4 on 32x32 ws, batch 64' has 2408730; make a
    plan for these costs
    """
    costs, layers = plan.costs, [layer.name for layer in found.layers] if isinstance(found, Network) else found.layers
    if unknown := [name for name in costs.layers if name not in layers]:
        raise ValueError(f"the plan has the layer {shown(unknown[0])}, which {shown(found.name)} has not; make a plan "
                         "for this network")  # fmt: skip
    if isinstance(found, Network):
        return
    if costs.layers != found.layers:
        raise ValueError(f"the plan has {len(costs)} layers and {shown(found.name)} has {len(found)}, or in another "
                         "order; make a plan for these costs")  # fmt: skip
    if costs.unit != found.unit:
        raise ValueError(f"the plan counts in {shown(costs.unit)}, and {shown(found.name)} in {shown(found.unit)}; "
                         "make a plan for these costs")
    for name in COLUMNS:
        _check_column(name, costs, found)


def _check_column(name, costs, found):
    for layer, one, other in zip(costs.layers, getattr(costs, name).tolist(), getattr(found, name).tolist()):
        if one != other:
            raise ValueError(f"the plan has {name} {one} for layer {shown(layer)}, and {shown(found.name)} has {other};"
                             " make a plan for these costs")
