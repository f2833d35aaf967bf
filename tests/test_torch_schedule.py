"""Schedules for torch pipelining: the same order, read back, run by hand, and loaded by torch where it is installed."""

import json
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from lpkit.costs import READINGS, Costs, costs
from lpkit.interop.torch_schedule import Action, is_flushed, orders_of, read_torch_csv, to_torch_csv, torch_actions
from lpkit.interop.torch_schedule import write_torch_csv
from lpkit.interop.torch_shift_file import SCHEMA, beside, input_channels, to_shift, write_torch_schedule
from lpkit.list_schedule import list_schedule
from lpkit.networks import network
from lpkit.partition import Plan, communication, optimal
from lpkit.schedule import SCHEDULES, hand_made, interleaved, layerpipe, one_f_one_b, schedule

CLOSEST = READINGS["closest"].choices()
FLUSHED = ("sequential", "gpipe", "one_f_one_b", "zero_bubble", "interleaved")


def even(layers=4, **options):
    return Plan("by hand", Costs.from_times([1] * layers, 1, 1, unit="cycles"), layers,
                ends=tuple(range(1, layers + 1)), **options)  # fmt: skip


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_step_by_hand(name):
    expected = {
        "sequential": "0F0,0B0\n1F0,1B0\n", "gpipe": "0F0,0F1,0F2,0B2,0B1,0B0\n1F0,1F1,1F2,1B2,1B1,1B0\n",
        "one_f_one_b": "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n",
        "interleaved": "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n",
        "pipedream": "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n",
        "layerpipe": "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1W0,1F1,1I1,1W1\n",
        "zero_bubble": "0F0,0F1,0I0,0W0,0F2,0I1,0W1,0I2,0W2\n1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1W2\n",
    }  # fmt: skip
    options = {} if name in ("sequential", "pipedream", "layerpipe") else {"micro_batches": 3}
    assert to_torch_csv(schedule(even(2), name, 2, **options)) == expected[name]


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("bubbles", [False, True])
def test_what_is_written_is_read_back(name, bubbles, tmp_path):
    for made in (optimal(costs("sample4", **CLOSEST), 3), optimal(costs("resnet18"), 7), even(5)):
        line = schedule(made, name, 5)
        path = write_torch_csv(line, tmp_path / "schedule.csv", bubbles=bubbles)
        assert read_torch_csv(path) == torch_actions(line)


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_order_is_that_of_the_timeline(name):
    """Run by hand, the actions take as long as the mini-batch they are from (a flush), or as the whole timeline."""
    made = optimal(costs("sample4", **CLOSEST), 3)
    line = schedule(made, name, 4)
    rows = torch_actions(line)
    each = 1 + max(action.micro_batch for action in rows[0])
    again = hand_made(made, orders_of(rows), micro_batches=each)
    if name == "sequential":  # its stages wait for each other, which no order of a stage can say
        assert again.makespan < schedule(made, name, 1).makespan
    else:
        assert again.makespan == (schedule(made, name, 1) if name in FLUSHED else line).makespan
        assert again.check() == ()


def test_which_timelines_flush():
    assert [name for name in SCHEDULES if is_flushed(schedule(even(3), name, 4))] == [
        name for name in SCHEDULES if name in FLUSHED]
    assert is_flushed(schedule(even(1), "layerpipe", 4))


def test_interleaved_stages_keep_their_rank():
    line = interleaved(even(6), processors=3, micro_batches=3)
    rows = torch_actions(line)
    assert [sorted({a.stage for a in row}) for row in rows] == [[0, 3], [1, 4], [2, 5]]
    assert [stage["rank"] for stage in to_shift(line)["stages"]] == [0, 1, 2, 0, 1, 2]
    with pytest.raises(ValueError, match="^3F0 is on rank 0; an order made by hand has stage k on rank k$"):
        orders_of(rows)


def test_bubbles_stand_where_a_rank_waits():
    text = to_torch_csv(one_f_one_b(even(3), micro_batches=2), bubbles=True)
    assert text == "0F0,0F1,,,,0B0,,0B1\n,1F0,1F1,,1B0,,1B1\n,,2F0,2B0,2F1,2B1\n"


def test_an_action_that_is_interrupted_is_refused():
    chain = Costs.from_times([1, 5, 1, 1], 1, [0, 1, 1, 1], unit="cycles")
    made = Plan("by hand", chain, 2, ends=(2, 4))
    told = "interrupts the work of stage . on micro-batch .*; torch runs F, I, W and B of"
    with pytest.raises(ValueError, match=told):
        for priority in ("critical_loop", "critical_path", "program_order"):
            torch_actions(list_schedule(made, 6, priority=priority, in_turn=False))
            torch_actions(list_schedule(made, 6, priority=priority))


def test_a_stage_without_a_layer_is_refused():
    chain = Costs.from_times([4, 4], 0, [0, 6], unit="cycles")
    line = layerpipe(Plan("by hand", chain, 3, ends=(1, 1, 2)), 1)
    with pytest.raises(ValueError, match="^stage 2 holds no layer; torch needs a module on every stage"):
        torch_actions(line)


def test_mini_batches_of_different_orders_are_refused():
    orders = [[("F", 0), ("F", 1), ("B", 0), ("B", 1), ("U", 0), ("F", 2), ("F", 3), ("B", 3), ("B", 2), ("U", 1)]]
    line = hand_made(even(1), orders, micro_batches=2)
    with pytest.raises(ValueError, match="^the mini-batches have different orders on rank 0; a step of torch is one"):
        torch_actions(line)


# ---- reading ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, sentence", [
    ("0F0,0X0\n", "row 0, entry 1 is '0X0'; an entry is STAGE, then F, I, W or B, then MICRO-BATCH, such as 0F3"),
    ("0F\n", "row 0, entry 0 is '0F'; an entry is"),
    ("0F0x\n", "row 0, entry 0 is '0F0x'; an entry is"),
    ("-1F0\n", "row 0, entry 0 is '-1F0'; an entry is"),
    (f"0F{'9' * 5000}\n", "row 0, entry 0 is '0F999"),
    ("0F0,0SEND_F0\n", "row 0, entry 1 is '0SEND_F0', communication; give a compute-only CSV"),
    ("0UNSHARD\n", "row 0, entry 0 is '0UNSHARD', communication; give a compute-only CSV"),
    ("0F0,0B0\n0F1,0B1\n", "stage 0 is on the ranks 0 and 1; keep it on one"),
    ("0F0,0F0,0B0\n", "0F0 on rank 0 repeats what was done; give F once, and B or I and W"),
    ("0F0,0I0,0W0,0B0\n", "0B0 on rank 0 repeats what was done"),
    ("0F0,0B0,0W0\n", "0W0 on rank 0 repeats what was done"),
    ("0B0,0F0\n", "0B0 on rank 0 comes before F; its order is F, I, W"),
    ("0F0,0W0,0I0\n", "0W0 on rank 0 comes before I; its order is F, I, W"),
    ("0F0,0I0\n", "stage 0, micro-batch 0 has F, I; give F, and B or I and W"),
    ("0F0,0B0\n1F0,1B0,1F1,1B1\n", "stage 0, micro-batch 1 has nothing; give F, and B or I and W"),
    ("0F0,0B0\n2F0,2B0\n", "stage 1 is missing; they are counted from 0 without a gap"),
    ("0F1,0B1\n", "micro-batch 0 is missing; they are counted from 0 without a gap"),
    ("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n", "the ranks wait for each other: 0B0 on rank 0 never gets what it needs"),
    (",,\n", "there is no action in it; give a row for each rank"),
])  # fmt: skip
def test_what_is_no_schedule(text, sentence, tmp_path):
    path = tmp_path / "schedule.csv"
    path.write_text(text)
    with pytest.raises(ValueError) as caught:
        read_torch_csv(path)
    message = str(caught.value)
    assert message.startswith(f"{str(path)!r}: {sentence}") and "\n" not in message and len(message) < 400


def test_an_empty_or_missing_file(tmp_path):
    (tmp_path / "schedule.csv").touch()
    with pytest.raises(ValueError, match="is empty; it may have been cut off"):
        read_torch_csv(tmp_path / "schedule.csv")
    with pytest.raises(FileNotFoundError, match="^there is no file"):
        read_torch_csv(tmp_path / "none.csv")


def test_windows_line_ends_and_blanks(tmp_path):
    (tmp_path / "schedule.csv").write_bytes(b'0F0, 0B0,\r\n,"1F0",1I0,1W0\r\n')
    assert read_torch_csv(tmp_path / "schedule.csv") == (
        (Action(0, "F", 0), Action(0, "B", 0)), (Action(1, "F", 0), Action(1, "I", 0), Action(1, "W", 0)))


ACTIONS = [f"{k}{op}{m}" for k in (0, 1) for op in "FIWB" for m in (0, 1)]
ENTRIES = some.sampled_from(ACTIONS) | some.text("01FB,\n", max_size=4)


@given(some.lists(some.lists(ENTRIES, max_size=6), min_size=1, max_size=3))
@settings(max_examples=200, deadline=None)
def test_any_text_is_a_schedule_or_refused(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("any") / "schedule.csv"
    path.write_text("\n".join(map(",".join, rows)) + "\n")
    try:
        found = read_torch_csv(path)
    except ValueError as error:
        assert "\n" not in str(error)
        return
    actions = [action for row in found for action in row]
    assert actions and len(actions) == len(set(actions))


# ---- the shifted delta --------------------------------------------------------------------------------------------


def test_the_shift_of_a_plan():
    made = optimal(costs("vgg11", **CLOSEST), 4)
    channels = input_channels(network("vgg11"))
    found = to_shift(layerpipe(made, 8), channels=channels)
    assert (found["schema"], found["micro_batches"], found["schedule"]) == (SCHEMA, 8, "layerpipe")
    assert [tuple(stage["layers"]) for stage in found["stages"]] == [
        made.costs.layers[r.start - 1 : r.stop - 1] for r in made.stages]
    assert len(found["shift"]) == len(made.moved) > 0
    for entry, (layer, source, target, amount) in zip(found["shift"], made.moved):
        share = Fraction(amount) / int(made.costs.delta[layer - 1])
        assert Fraction(entry["fraction"]) == share and entry["fraction_number"] == float(share)
        assert (entry["layer"], entry["from_stage"], entry["to_stage"]) == (
            made.costs.layers[layer - 1], source - 1, target - 1)
        count = channels[entry["layer"]]
        assert abs(entry["moved_channels"] - share * count) <= Fraction(1, 2) and entry["input_channels"] == count
        assert Fraction(entry["moved_fraction"]) == Fraction(entry["moved_channels"], count)
        weights = int(made.costs.weight_bytes[layer - 1])
        assert entry["weight_bytes"] == round(Fraction(entry["moved_fraction"]) * weights)
    assert any("torch updates once" in text for text in found["not_in_the_csv"])
    assert not any("torch updates once" in text for text in to_shift(schedule(made, "gpipe"))["not_in_the_csv"])


def test_without_channels_the_true_fraction_is_kept():
    made = optimal(costs("sample4", **CLOSEST), 3)
    found = to_shift(layerpipe(made, 2))["shift"]
    assert [entry["moved_channels"] for entry in found] == [None] * len(found) and found
    assert sum(entry["weight_bytes"] for entry in found) == round(communication(made).total_additional)


@pytest.mark.parametrize("count", [0, -1, 2.5, "3"])
def test_channels_that_are_none(count):
    made = optimal(costs("sample4", **CLOSEST), 3)
    with pytest.raises(ValueError, match="^channels of layer 'conv1' is .*; it must be a whole number of at least 1$"):
        to_shift(layerpipe(made, 2), channels={"conv1": count})


def test_both_files_or_none(tmp_path):
    line = layerpipe(optimal(costs("sample4", **CLOSEST), 3), 4)
    paths = write_torch_schedule(line, tmp_path / "schedule.csv")
    assert paths == (tmp_path / "schedule.csv", tmp_path / "schedule.shift.json")
    assert json.loads(paths[1].read_text()) == to_shift(line) and read_torch_csv(paths[0]) == torch_actions(line)
    other = tmp_path / "other"
    beside(other / "schedule.csv").mkdir(parents=True)
    with pytest.raises(ValueError, match="^cannot write '.*schedule.shift.json'"):
        write_torch_schedule(line, other / "schedule.csv")
    assert [path.name for path in other.iterdir()] == ["schedule.shift.json"]


# ---- torch --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine():
    return pytest.importorskip("torch.distributed.pipelining.schedules", reason="torch is not installed")


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("bubbles", [False, True])
def test_torch_reads_the_schedule(engine, name, bubbles, tmp_path):
    line = schedule(even(4), name, 6, **({"processors": 2} if name == "interleaved" else {}))
    path = write_torch_csv(line, tmp_path / "schedule.csv", bubbles=bubbles)
    ranks, micros = len(set(line.processors)), 1 + max(a.micro_batch for a in torch_actions(line)[0])
    runtime = object.__new__(engine._PipelineScheduleRuntime)  # a whole one needs processes that talk
    runtime.pp_group_size, runtime._num_stages, runtime._n_microbatches = ranks, 4, micros
    runtime.pipeline_order, runtime._stages, runtime._defer_pp_recv = {}, [], False
    runtime._load_csv(str(path))
    for rank, row in enumerate(torch_actions(line)):
        read = [action for action in runtime.pipeline_order[rank] if action is not None]
        assert [(a.stage_index, a.computation_type.value, a.microbatch_index) for a in read] == list(row)
    assert runtime.stage_index_to_group_rank == {k: home - 1 for k, home in enumerate(line.processors)}
    lowered = runtime.pipeline_order_with_comms
    assert all(sum("SEND" in str(action) for action in lowered[rank]) > 0 for rank in range(ranks))
