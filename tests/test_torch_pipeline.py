"""Plans on torch's pipelining runtime: gradients against one process, with and without delta'', traffic, errors."""

import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest

from lpkit.costs import Costs
from lpkit.interop.overlay import overlay
from lpkit.interop.profiler_trace import read_profiler_trace
from lpkit.interop.torch_layers import TESTED, module_layers, needs_tested_torch, split
from lpkit.plans import Plan, communication
from lpkit.schedule import layerpipe, one_f_one_b

torch = pytest.importorskip("torch", reason="torch is not installed: the stages of a plan cannot be run")
nn = torch.nn
tested = str(torch.__version__).split("+")[0].startswith(tuple(f"{version}." for version in TESTED))
runs = pytest.mark.skipif(not tested, reason=f"plans run on torch {' or '.join(TESTED)} only")

from lpkit.interop.torch import Workers, profile_layers, run_alone, run_pipeline  # noqa: E402

CLOSE = 1e-6
ENDS = {"cnn": (2, 4), "mlp": (2, 4)}


def model(kind):
    torch.manual_seed(5)
    if kind == "cnn":
        return nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 8, 3, stride=2), nn.ReLU(),
                             nn.Conv2d(8, 5, 3, padding=1, dilation=2), nn.ReLU(), nn.Flatten(), nn.Linear(5 * 9, 4))
    return nn.Sequential(nn.Linear(7, 12), nn.ReLU(), nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 9), nn.ReLU(),
                         nn.Linear(9, 4))  # fmt: skip


def batch(kind, samples=8):
    torch.manual_seed(6)
    x = torch.randn((samples, 3, 11, 11) if kind == "cnn" else (samples, 7))
    return x, torch.randint(0, 4, (samples,))


def by_hand(layers, ends, moved=(), delta=1.0, **sizes):
    return Plan("by hand", Costs.from_times([1.0] * layers, 1.0, [0.0] + [delta] * (layers - 1), **sizes), len(ends),
                ends=ends, moved=moved)  # fmt: skip


@pytest.fixture(scope="module")
def workers():
    with Workers(3) as kept:
        yield kept


def ran(kind, workers, plan=None, **options):
    plan = plan or by_hand(4, ENDS[kind])
    return run_pipeline(model(kind), plan, *batch(kind), nn.CrossEntropyLoss(), workers=workers, **options)


def alone(kind, **options):
    return run_alone(model(kind), *batch(kind), nn.CrossEntropyLoss(), **options)


# ---- gradients ----------------------------------------------------------------------------------------------------


@runs
@pytest.mark.parametrize("schedule", ["one_f_one_b", "zero_bubble"])
@pytest.mark.parametrize("shift", [0, 0.25, 0.5, 1])
@pytest.mark.parametrize("kind", ["cnn", "mlp"])
def test_gradients_equal_one_process(kind, shift, schedule, workers):
    run, one = ran(kind, workers, shift=shift, schedule=schedule), alone(kind)
    assert sorted(run.gradients) == sorted(one.gradients) == sorted(name for name, _ in model(kind).named_parameters())
    assert run.difference(one) < CLOSE
    assert np.allclose(run.losses, one.losses, rtol=1e-6, atol=0)
    assert run.traffic[0].moved == round(shift * run.traffic[0].channels)


@runs
def test_an_own_training_loop_gives_the_same(workers):
    """`run_alone` itself against a plain loop over the whole mini-batch."""
    whole = model("cnn")
    x, y = batch("cnn")
    nn.CrossEntropyLoss()(whole(x), y).backward()
    run = ran("cnn", workers, shift=0.5)
    for name, parameter in whole.named_parameters():
        expected = parameter.grad.numpy()
        assert np.abs(run.gradients[name] - expected).max() < CLOSE * np.abs(expected).max(), name


@runs
def test_in_double_precision_nothing_but_rounding_is_left(workers):
    """All of delta is moved, so that the gradient of the first layer is the next stage's work alone."""
    x, y = batch("mlp")
    given = model("mlp").double(), by_hand(4, (2, 4)), x.double(), y, nn.CrossEntropyLoss()
    run = run_pipeline(*given, shift=1, workers=workers)
    one = run_alone(given[0], *given[2:])
    assert run.difference(one) < 1e-14
    assert np.abs(one.gradients["0.weight"]).max() > 1e-3


@runs
@pytest.mark.parametrize("shift", [(0, 0.5), (0.5, 1)])
def test_three_stages_share_at_each_boundary(shift, workers):
    plan = by_hand(4, (2, 3, 4))
    run = ran("mlp", workers, plan, shift=shift, schedule="zero_bubble")
    assert run.difference(alone("mlp")) < CLOSE
    assert [t.moved for t in run.traffic] == [round(shift[0] * 12), round(shift[1] * 9)]


@runs
def test_training_sends_the_weights_of_each_step(workers):
    run = ran("cnn", workers, shift=0.5, steps=4, learning_rate=0.3)
    one = alone("cnn", steps=4, learning_rate=0.3)
    assert np.abs(one.losses[0] - one.losses[-1]).max() > 0.01
    assert np.allclose(run.losses, one.losses, rtol=2e-6, atol=0)
    assert all(np.allclose(run.state[name], one.state[name], rtol=1e-5, atol=1e-6) for name in one.state)


@runs
@pytest.mark.parametrize("after", [[nn.Tanh()], [nn.Sigmoid()], [nn.LeakyReLU(0.2)], [nn.ReLU(inplace=True)], [],
                                   [nn.Identity(), nn.ReLU(), nn.Flatten()]], ids=str)  # fmt: skip
def test_other_activations_at_the_boundary(after, workers):
    torch.manual_seed(1)
    chain = [nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 8), *after, nn.Linear(8, 3)]
    x, y = torch.randn(8, 5), torch.randn(8, 3)
    run = run_pipeline(chain, by_hand(3, (2, 3)), x, y, nn.MSELoss(), shift=0.5, workers=workers)
    assert run.traffic[0].moved == 3
    assert run.difference(run_alone(chain, x, y, nn.MSELoss())) < CLOSE


@runs
def test_normalisation_follows_the_micro_batches(workers):
    chain = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.Flatten(),
                          nn.Linear(64, 2))  # fmt: skip
    x, y = torch.randn(8, 2, 8, 8), torch.randn(8, 2)
    run = run_pipeline(chain, by_hand(3, (1, 3)), x, y, nn.MSELoss(), workers=workers)
    one = run_alone(chain, x, y, nn.MSELoss())
    assert run.difference(one) < CLOSE
    assert np.allclose(run.state["1.running_var"], one.state["1.running_var"], rtol=1e-6)
    assert chain[1].num_batches_tracked == 0, "the model that was given is not changed"


@runs
def test_one_stage_is_a_plan_too(workers):
    assert ran("mlp", workers, by_hand(4, (4,))).difference(alone("mlp")) < CLOSE


# ---- traffic and times --------------------------------------------------------------------------------------------


@runs
@pytest.mark.parametrize("fraction", [0, 0.25, 0.5, 1])
def test_traffic_agrees_with_the_full_accounting(fraction, workers):
    costs = profile_layers(model("cnn"), batch("cnn")[0][:2], repeats=1, warmup=0)
    moved = ((2, 1, 2, costs.delta[1].item() * fraction),) if fraction else ()
    plan = Plan("by hand", costs, 2, ends=(2, 4), moved=moved)
    run, full = ran("cnn", workers, plan), communication(plan, "full")
    sent = run.traffic[0]
    assert sent.activations + sent.errors == 4 * full.mandatory[0]
    exact = sent.moved / sent.channels  # 6 channels: a quarter is 1.5 of them, two are sent
    assert abs(exact - fraction) <= 0.5 / sent.channels
    if fraction:
        assert sent.weights == pytest.approx(full.weights[0] * exact / fraction, rel=1e-12)
        assert sent.results == pytest.approx(4 * full.results[0] * exact / fraction, rel=1e-12)


@runs
def test_spans_and_times(workers):
    run = ran("cnn", workers, shift=0.5, steps=3)
    assert {(s.stage, s.operation) for s in run.spans} == {(1, "F"), (1, "B"), (2, "F"), (2, "B"), (2, "delta''")}
    assert len(run.spans) == 3 * 4 * 5 and len(run.step_seconds) == 3
    assert all(0 <= s.start <= s.end and 0 <= s.waited <= s.end - s.start for s in run.spans)
    for stage in (1, 2):  # a process does one thing at a time
        spans = sorted((s.step, s.start, s.end) for s in run.spans if s.stage == stage)
        assert all(a[2] <= b[1] for a, b in zip(spans, spans[1:]) if a[0] == b[0])
    assert len(run.busy) == 2 and 0 < max(run.busy) and 0 < run.period < max(run.step_seconds)


@runs
def test_real_traces_lie_over_the_plan(workers, tmp_path):
    """Two steps of a plan, the traces of the last one read back: every action of the timeline was measured once."""
    plan = by_hand(4, ENDS["mlp"])
    run = ran("mlp", workers, plan=plan, steps=2, traces=tmp_path)
    spans = read_profiler_trace(*run.traces)
    timeline = one_f_one_b(plan, micro_batches=4)
    done = spans[spans["action"].isin(["F", "B"])]
    assert sorted(zip(done["stage"], done["action"], done["micro_batch"])) == sorted(
        (stage, action, micro) for stage in (0, 1) for action in "FB" for micro in range(4))  # fmt: skip
    assert (spans["duration"] >= 0).all() and set(spans["step"]) == {0}
    laid = overlay(timeline, spans)
    planned = laid.table[laid.table["measure"] == "busy"].set_index("stage")["planned"]
    assert planned.to_dict() == {1: 4 * (2 * 3 - 1), 2: 4 * 2 * 3}  # F, G and delta of two layers, no delta of layer 1
    assert (laid.table.loc[laid.table["measure"].isin(["busy", "period", "F"]), "measured"] > 0).all()


@runs
def test_profiler_traces_hold_every_action(workers, tmp_path):
    run = ran("mlp", workers, schedule="zero_bubble", traces=tmp_path / "new")
    for stage, path in enumerate(run.traces):
        text = path.read_text()
        assert all(f'"PP:{stage}{what}{m}"' in text for what in "FIW" for m in range(4))


def test_profile_measures_each_layer():
    wide = nn.Sequential(nn.Linear(16, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 4))
    sample, threads, state = torch.randn(64, 16), torch.get_num_threads(), torch.random.get_rng_state()
    costs = profile_layers(wide, sample, repeats=5)
    assert torch.get_num_threads() == threads and torch.equal(torch.random.get_rng_state(), state)
    assert costs.layers == ("0", "2", "4") and costs.unit == "s" and costs.delta[0] == 0
    assert costs.delta[1] > costs.delta[2] and costs.F[1] > costs.F[2], "512 x 512 takes longer than 512 x 4"
    assert costs.weight_bytes.tolist() == [4 * 16 * 512, 4 * 512 * 512, 4 * 512 * 4]
    assert costs.cut_bytes.tolist() == [4 * 64 * 512] * 2 and costs.input_bytes.tolist()[0] == 4 * 64 * 16
    assert "1 thread " in costs.source and str(torch.__version__) in costs.source
    assert all(p.grad is None for p in wide.parameters())


def test_profile_takes_blocks_as_layers():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(6, 6)

        def forward(self, x):
            return x + torch.relu(self.inner(x))

    costs = profile_layers([nn.Flatten(), nn.Linear(6, 6), Residual(), Residual()], torch.ones(2, 6), repeats=3)
    assert costs.layers == ("1", "2", "3") and (costs.delta[1:] > 0).all()


# ---- what cannot be run -------------------------------------------------------------------------------------------

LINEAR = [nn.Linear(7, 12), nn.ReLU(), nn.Linear(12, 4)]
TWO = by_hand(2, (1, 2))


def refuses(message, modules=LINEAR, plan=TWO, samples=8, loss=None, **options):
    with pytest.raises(ValueError, match=message):
        run_pipeline(modules, plan, *batch("mlp", samples), loss or nn.CrossEntropyLoss(), **options)


@runs
def test_interleaved_stages_are_refused_with_the_reason():
    refuses("schedule is 'interleaved', which puts several stages on a process; .* use one of 'gpipe'",
            schedule="interleaved")  # fmt: skip


@runs
def test_refuses_what_is_no_chain():
    refuses("the model is a Linear; give an nn.Sequential or a list of modules", nn.Linear(7, 4))
    refuses("the model holds 3; give an nn.Sequential or a list", [nn.Linear(7, 4), 3])
    refuses("the model has no layer with weights", [nn.ReLU()])
    shared = nn.Linear(7, 7)
    refuses("modules '0' and '1' share a parameter", [shared, shared])
    refuses("gives a tuple; stages pass one tensor on, so skip", [nn.LSTM(7, 4), nn.Linear(4, 4)])
    refuses(r"module '2' does not take an input of shape \(2, 12\)", [nn.Linear(7, 12), nn.ReLU(), nn.Linear(9, 4)])


@runs
def test_refuses_plans_of_other_models():
    refuses("the plan has 3 layers and the model 2: '0, 2'; plan from costs of this model", plan=by_hand(3, (1, 3)))
    refuses("layer 'layer1' of the plan has 8 bytes of weights, and module '0' 84",
            plan=by_hand(2, (1, 2), weight_bytes=8))  # fmt: skip
    refuses("plan is None; give a Plan", plan=None)
    refuses("leaves a stage without a layer", plan=by_hand(2, (1, 1, 2)))
    refuses("the plan cannot be run: the stage ends", plan=by_hand(2, (1, 3)))
    branched = Costs("net", ("a", "b", "c"), *[[1.0] * 3] * 3, *[[0] * 3] * 3, [0, 0], [3, 3, 4], [True, False, False],
                     "s")  # fmt: skip
    three = [nn.Linear(7, 7), nn.Linear(7, 7), nn.Linear(7, 4)]
    refuses("with branches .at layer 'a'.; .* skip connections across stages cannot be run", three,
            Plan("by hand", branched, 2, ends=(1, 3)))  # fmt: skip


@runs
def test_refuses_what_the_engine_cannot_schedule():
    for name in ("pipedream", "layerpipe"):
        refuses("flush", schedule=name)
    refuses("flushes and updates after each mini-batch", schedule=layerpipe(TWO, 4))
    refuses("did you mean 'gpipe'", schedule="gpip")
    refuses("1 mini-batches of 4 micro-batches on 2 stages; .* give one mini-batch of 2", schedule=one_f_one_b(TWO),
            micro_batches=2)  # fmt: skip
    refuses("8 samples cannot be divided into 3 equal micro-batches", micro_batches=3)
    refuses("micro_batches is 0", micro_batches=0)


@runs
def test_refuses_delta_that_cannot_be_shared():
    chain = [nn.Linear(7, 7), nn.Linear(7, 8), nn.Softmax(-1), nn.Linear(8, 4)]
    three = by_hand(3, (2, 3))
    refuses("delta of module '1' cannot be shared .*: a Softmax follows it", chain, three, shift=0.5)
    refuses("two activations follow it", [*chain[:2], nn.ReLU(), nn.Tanh(), chain[3]], three, shift=1)
    refuses("the first layer has none", shift=0.5)
    refuses("shift is 1.5; give a fraction from 0 to 1", shift=1.5)
    refuses("one for each of the 1 boundaries", shift=[0.5, 0.5])
    grouped = [nn.Conv1d(1, 2, 1), nn.Conv1d(2, 2, 3, groups=2), nn.Flatten(), nn.Linear(10, 4)]
    with pytest.raises(ValueError, match="it has 2 groups"):
        run_pipeline(grouped, three, torch.ones(8, 1, 7), torch.zeros(8, 4), nn.MSELoss(), shift=0.5)


@runs
def test_refuses_what_other_processes_cannot_import():
    refuses("<lambda> is defined in the script or notebook itself", loss=lambda out, y: out.mean())


@pytest.mark.parametrize("version", ["2.12.1", "2.15.0", "2.14.1+cpu"])
def test_refuses_untested_versions(version, monkeypatch):
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(ValueError, match=f"torch {re.escape(version)} is installed; plans run on torch 2.13 only"):
        needs_tested_torch()


def test_layers_of_nested_sequentials():
    nested = nn.Sequential(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), nn.ReLU(), nn.Sequential(nn.Linear(3, 2)))
    assert [(l.name, l.names) for l in module_layers(nested)] == [("0.1", ("0.0", "0.1", "1")), ("2.0", ("2.0",))]
    assert [[l.name for l in stage] for stage in split(nested, TWO)] == [["0.1"], ["2.0"]]


# ---- processes ----------------------------------------------------------------------------------------------------


class Wrong(nn.Module):
    """Fails in its second pass forward, and only there, or stops for long."""

    def __init__(self, how):
        super().__init__()
        self.how, self.passes = how, 0

    def forward(self, x):
        self.passes += x.requires_grad
        if self.passes > 2:
            if self.how == "raise":
                raise OverflowError("too\n much")
            time.sleep(60) if self.how == "sleep" else os._exit(7)
        return x


@runs
def test_a_failing_stage_is_one_sentence_and_leaves_nothing(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))
    data = (*batch("mlp"), nn.CrossEntropyLoss())
    with Workers(2) as own:
        for how, message in (("sleep", "^after 10 s stage 1 and 2 had not finished"),
                             ("raise", "^stage 2 failed: OverflowError: too much$"),
                             ("exit", "^the process of stage 2 ended with code 7$")):  # fmt: skip
            run = run_pipeline(LINEAR, TWO, *data, workers=own)  # a run that failed does not spoil the next
            assert run.difference(run_alone(LINEAR, *data)) < CLOSE and own.running == 2
            with pytest.raises(RuntimeError, match=message):
                run_pipeline([*LINEAR, Wrong(how)], TWO, *data, steps=2, workers=own,
                             timeout=10 if how == "sleep" else 120)  # fmt: skip
            assert own.running == 0


def test_fewer_workers_than_stages_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"3 stages and there are 2 workers; make Workers\(3\)"):
        Workers(2).run(tmp_path, 3, timeout=1)
    with pytest.raises(ValueError, match="the number of workers is 0"):
        Workers(0)


@runs
@pytest.mark.skipif(os.name != "posix", reason="asks the system about processes as POSIX does")
def test_workers_die_with_their_parent():
    script = ("from lpkit.interop.torch import Workers\nw = Workers(2)\nw._start()\n"
              "print(*(p.pid for p in w._processes), flush=True)\nimport time; time.sleep(100)")  # fmt: skip
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    children = list(map(int, parent.stdout.readline().split()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 120
    while any(map(_alive, children)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(children) == 2 and not any(map(_alive, children))


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
