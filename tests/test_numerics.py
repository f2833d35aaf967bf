"""F, G, delta and what lies between them: against loops, finite differences, the counted Gemms, and torch if there."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lpkit.graph import Network, Node
from lpkit.networks import Conv, Dense, Flatten, Pool
from lpkit.numerics import (
    activate, activation_slope, bias_G, conv_delta, conv_forward, conv_G, dense_delta, dense_forward, dense_G,
    ordered_product, pool_backward, pool_forward, softmax_cross_entropy, squared_error,
)  # fmt: skip
from lpkit.operations import output_shape
from lpkit.products import DELTAS, G_FORMS, gemm_rows

CONVS = [
    (Conv(2, 1), (1, 1, 1)),
    (Conv(4, 3, padding=1), (2, 5, 6)),
    (Conv(6, (3, 2), stride=(2, 3), padding=(1, 0), groups=2), (4, 7, 9)),
    (Conv(3, 3, stride=2, padding=2, dilation=2), (2, 8, 6)),
    (Conv(4, (1, 3), stride=(3, 1), dilation=(1, 2)), (3, 5, 7)),  # rows that no tap meets
    (Conv(3, 2, stride=3, padding=3, groups=3), (3, 6, 5)),  # windows that lie in the padding alone
    (Conv(2, 5, stride=4, padding=2), (1, 10, 11)),
]


@st.composite
def convolutions(draw):
    per_axis = st.tuples(*[st.integers(1, 4)] * 2)
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    op = Conv(groups * draw(st.integers(1, 2)), draw(per_axis), stride=draw(per_axis),
              padding=draw(st.tuples(*[st.integers(0, 4)] * 2)), groups=groups,
              dilation=draw(st.tuples(*[st.integers(1, 2)] * 2)))  # fmt: skip
    spans = [max(1, d * (k - 1) + 1 - 2 * p) for d, k, p in zip(op.dilation, op.kernel, op.padding)]
    return op, (groups * draw(st.integers(1, 2)), *(span + draw(st.integers(0, 5)) for span in spans))


def arrays(op, shape, batch=2, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((op.out_channels, shape[0] // op.groups, *op.kernel))
    a = rng.standard_normal((batch, *shape))
    delta = rng.standard_normal((batch, *output_shape(op, shape)))
    return W.astype(dtype), a.astype(dtype), delta.astype(dtype)


def terms(op, shape):
    """Every (n, e, f), (c, h, w), tap that a convolution multiplies: the definition, in loops."""
    N, E, F = output_shape(op, shape)
    C = shape[0] // op.groups
    for n, e, f, c, i, j in itertools.product(*map(range, (N, E, F, C, *op.kernel))):
        h = e * op.stride[0] - op.padding[0] + i * op.dilation[0]
        w = f * op.stride[1] - op.padding[1] + j * op.dilation[1]
        if 0 <= h < shape[1] and 0 <= w < shape[2]:
            yield (n, e, f), (n // (N // op.groups) * C + c, h, w), (n, c, i, j)


def by_loops(W, a, delta, op):
    out, back, G = np.zeros_like(delta), np.zeros_like(a), np.zeros_like(W)
    for o, x, t in terms(op, a.shape[1:]):
        out[(..., *o)] += W[t] * a[(..., *x)]
        back[(..., *x)] += W[t] * delta[(..., *o)]
        G[t] += delta[(..., *o)] @ a[(..., *x)]
    return out, back, G


def hold(op, shape):
    W, a, delta = arrays(op, shape)
    out, back, G = by_loops(W, a, delta, op)
    np.testing.assert_allclose(conv_forward(W, a, op), out, rtol=1e-12, atol=1e-12)
    for form in DELTAS:
        np.testing.assert_allclose(conv_delta(W, delta, op, shape, form=form), back, rtol=1e-12, atol=1e-12)
    for form in G_FORMS:
        np.testing.assert_allclose(conv_G(delta, a, op, form=form), G, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("op, shape", CONVS)
def test_convolution_equals_its_definition_in_loops(op, shape):
    hold(op, shape)


@settings(max_examples=60, deadline=None)
@given(convolutions())
def test_any_convolution_equals_its_definition_in_loops(drawn):
    hold(*drawn)


# the Gemms that are counted ------------------------------------------------------------------------------------------


def layer(op, shape):
    before = [] if isinstance(op, Conv) else [Node("flat", Flatten(), "input")]
    return Network("one", shape, (*before, Node("layer", op, "flat" if before else "input"))).layers[0]


def recorded(call):
    """(M, K, N, count) of each product that `call` multiplies."""
    found = []

    def product(a, b):
        assert a.shape[-1] == b.shape[-2]
        found.append((a.shape[-2], a.shape[-1], b.shape[-1], math.prod(a.shape[:-2])))
        return np.matmul(a, b)

    call(product=product)
    return found


def counted(op, shape, batch, what, **forms):
    times = (1, batch, 1, 1) if what == "G" else (batch, 1, 1, 1)
    return [tuple(x * t for x, t in zip(row, times)) for row in gemm_rows(layer(op, shape), what, **forms)]


def separate(rows, groups):
    """Rows that stand for several equal products (phases of one size), once for each of them, sorted."""
    return sorted((M, K, N, groups) for M, K, N, count in rows for _ in range(count // groups))


def same_products(op, shape, batch=3):
    W, a, delta = arrays(op, shape, batch)
    assert recorded(partial(conv_forward, W, a, op)) == counted(op, shape, batch, "F")
    for form in G_FORMS:
        assert recorded(partial(conv_G, delta, a, op, form=form)) == counted(op, shape, batch, "G", G=form)
    for form in DELTAS:
        found = recorded(partial(conv_delta, W, delta, op, shape, form=form))
        rows = counted(op, shape, batch, "delta", delta=form)
        groups = getattr(op, "groups", 1)
        assert sorted(found) == separate(rows, groups) and all(count % groups == 0 for *_, count in rows)


@pytest.mark.parametrize("op, shape", CONVS)
def test_products_are_the_counted_gemms(op, shape):
    same_products(op, shape)


@settings(max_examples=60, deadline=None)
@given(convolutions())
def test_products_of_any_convolution_are_the_counted_gemms(drawn):
    same_products(*drawn)


def test_dense_products_are_the_counted_gemms():
    op, shape = Dense(5), (7, 1, 1)
    W, a, delta = np.ones((5, 7)), np.ones((3, 7)), np.ones((3, 5))
    assert recorded(partial(dense_forward, W, a)) == counted(op, shape, 3, "F") == [(3, 7, 5, 1)]
    assert recorded(partial(dense_delta, W, delta)) == counted(op, shape, 3, "delta") == [(3, 5, 7, 1)]
    for form in G_FORMS:
        assert recorded(partial(dense_G, delta, a, form=form)) == counted(op, shape, 3, "G", G=form)


# finite differences --------------------------------------------------------------------------------------------------


def slope_by_differences(value, x, step=1e-6):
    """Gradient of the scalar `value(x)` by central differences."""
    slope = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[i] += step
        down[i] -= step
        slope[i] = (value(up) - value(down)) / (2 * step)
    return slope


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("op, shape", CONVS)
def test_convolution_by_finite_differences(op, shape):
    W, a, delta = arrays(op, shape)

    def loss(W, a):
        return np.sum(delta * np.tanh(conv_forward(W, a, op)))

    out = np.tanh(conv_forward(W, a, op))
    back = delta * activation_slope(out, "tanh")
    wanted_W = slope_by_differences(lambda W: loss(W, a), W)
    for form in G_FORMS:
        close(conv_G(back, a, op, form=form), wanted_W)
    wanted_a = slope_by_differences(lambda a: loss(W, a), a)
    for form in DELTAS:
        close(conv_delta(W, back, op, shape, form=form), wanted_a)
    bias = np.zeros(op.out_channels)
    close(bias_G(back), slope_by_differences(
        lambda b: np.sum(delta * np.tanh(conv_forward(W, a, op) + b[:, None, None])), bias))  # fmt: skip


def test_dense_by_finite_differences():
    rng = np.random.default_rng(1)
    W, a, delta = rng.standard_normal((5, 7)), rng.standard_normal((3, 7)), rng.standard_normal((3, 5))
    for form in G_FORMS:
        close(dense_G(delta, a, form=form), slope_by_differences(lambda W: np.sum(delta * dense_forward(W, a)), W))
    close(dense_delta(W, delta), slope_by_differences(lambda a: np.sum(delta * dense_forward(W, a)), a))
    close(bias_G(delta), delta.sum(axis=0))


@pytest.mark.parametrize("kind", ["relu", "tanh", "sigmoid", "identity"])
def test_activation_by_finite_differences(kind):
    z = np.linspace(-3, 3, 12)  # no 0, where ReLU has no slope
    close(activation_slope(activate(z, kind), kind), slope_by_differences(lambda z: activate(z, kind).sum(), z))


POOLS = [Pool(2), Pool(3, stride=2, padding=1), Pool((2, 3), stride=(1, 2)), Pool(3, stride=2, ceil_mode=True),
         Pool(2, stride=3)]  # fmt: skip


@pytest.mark.parametrize("kind", ["max", "average"])
@pytest.mark.parametrize("pool", POOLS)
def test_pooling_by_finite_differences_and_by_loops(pool, kind):
    op = Pool(pool.kernel, pool.stride, pool.padding, kind, pool.ceil_mode)
    a = np.random.default_rng(2).permutation(2 * 3 * 6 * 7).reshape(2, 3, 6, 7) / 10.0  # all different
    out, winner = pool_forward(a, op)
    for n, c, e, f in np.ndindex(*out.shape):
        h, w = e * op.stride[0] - op.padding[0], f * op.stride[1] - op.padding[1]
        window = a[n, c, max(h, 0) : h + op.kernel[0], max(w, 0) : w + op.kernel[1]]
        assert math.isclose(out[n, c, e, f], window.max() if kind == "max" else window.mean(), rel_tol=1e-12)
    delta = np.random.default_rng(3).standard_normal(out.shape)
    wanted = slope_by_differences(lambda a: np.sum(delta * pool_forward(a, op)[0]), a)
    close(pool_backward(delta, winner, op, a.shape[1:]), wanted)


def test_equal_values_in_a_window_the_first_wins():
    out, winner = pool_forward(np.zeros((1, 1, 2, 2)), Pool(2))
    assert (out.item(), winner.item()) == (0, 0)
    assert pool_backward(np.ones((1, 1, 1, 1)), winner, Pool(2), (1, 2, 2)).tolist() == [[[[1, 0], [0, 0]]]]


@pytest.mark.parametrize("loss, target", [
    (softmax_cross_entropy, np.array([2, 0, 1, 1])),
    (squared_error, np.random.default_rng(5).standard_normal((4, 3))),
])  # fmt: skip
def test_losses_by_finite_differences(loss, target):
    output = np.random.default_rng(4).standard_normal((4, 3))
    value, delta = loss(output, target)
    assert type(value) is float
    close(delta, slope_by_differences(lambda o: loss(o, target)[0], output))


def test_cross_entropy_of_large_outputs_is_finite():
    value, delta = softmax_cross_entropy(np.array([[1e30, 0.0]]), np.array([1]))
    assert value == 1e30 and delta.tolist() == [[1.0, -1.0]]


def test_sigmoid_of_large_values_is_exact():
    assert activate(np.array([-1e6, 0.0, 1e6]), "sigmoid").tolist() == [0.0, 0.5, 1.0]


# precision and order of sums -----------------------------------------------------------------------------------------


def test_float32_stays_float32():
    W, a, delta = arrays(Conv(4, 3, padding=1, groups=2), (2, 5, 6), dtype=np.float32)
    op = Conv(4, 3, padding=1, groups=2)
    results = [conv_forward(W, a, op), bias_G(delta), *(conv_G(delta, a, op, form=f) for f in G_FORMS)]
    results += [conv_delta(W, delta, op, (2, 5, 6), form=f) for f in DELTAS]
    results += [activate(a, k) for k in ("relu", "tanh", "sigmoid", "identity")]
    results += [activation_slope(a, k) for k in ("relu", "tanh", "sigmoid", "identity")]
    for op in (Pool(2), Pool(2, kind="average")):
        out, winner = pool_forward(a, op)
        results += [out, pool_backward(out, winner, op, a.shape[1:])]
    flat = a.reshape(2, -1)
    results += [dense_forward(flat[:1], flat), dense_G(flat[:, :3], flat), dense_delta(flat[:1], flat[:, :1])]
    results += [softmax_cross_entropy(flat, np.array([0, 1]))[1], squared_error(flat, flat)[1]]
    assert {result.dtype for result in results} == {np.dtype(np.float32)}


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(2, 9), st.data())
def test_ordered_product_of_columns_is_the_columns_of_the_ordered_product(M, K, N, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    a, b = rng.standard_normal((M, K)), rng.standard_normal((K, N))
    cut = data.draw(st.integers(1, N - 1))
    whole = ordered_product(a, b)
    assert np.array_equal(whole, np.hstack([ordered_product(a, b[:, :cut]), ordered_product(a, b[:, cut:])]))
    one_by_one = [[sum((float(x * y) for x, y in zip(row[1:], column[1:])), float(row[0] * column[0]))
                   for column in b.T] for row in a]  # fmt: skip
    assert abs(whole - one_by_one).max() <= 1e-12
    np.testing.assert_allclose(whole, a @ b, rtol=1e-12, atol=1e-12)


# torch ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op, shape", CONVS)
def test_convolution_equals_torch(op, shape):
    torch = pytest.importorskip("torch", reason="torch is not installed; finite differences hold the same")
    W, a, delta = arrays(op, shape)
    tW, ta = (torch.tensor(x, requires_grad=True) for x in (W, a))
    out = torch.nn.functional.conv2d(
        ta, tW, stride=op.stride, padding=op.padding, dilation=op.dilation, groups=op.groups
    )
    out.backward(torch.tensor(delta))
    close(conv_forward(W, a, op), out.detach().numpy())
    close(conv_G(delta, a, op), tW.grad.numpy())
    close(conv_delta(W, delta, op, shape), ta.grad.numpy())


# wrong input ---------------------------------------------------------------------------------------------------------

W, A = np.ones((4, 3, 3, 3)), np.ones((2, 3, 5, 5))


@pytest.mark.parametrize("call, sentence", [
    (lambda: conv_forward(W, np.ones((2, 4, 5, 5)), Conv(4, 3)), r"W has shape .*; .* needs \(4, 4, 3, 3\)"),
    (lambda: conv_forward(W, np.ones((3, 5, 5)), Conv(4, 3)), r"a sample .* has shape \(5, 5\); it must be \(channels"),
    (lambda: conv_forward(W, A, Conv(4, 3, groups=2)), r"Conv\(.*groups=2.*\) on 3 channels"),
    (lambda: conv_G(np.ones((2, 4, 5, 5)), A, Conv(4, 3)), r"delta has shape \(2, 4, 5, 5\); .* gives \(2, 4, 3, 3\)"),
    (lambda: conv_G(np.ones((1, 4, 3, 3)), A, Conv(4, 3)), r"delta has shape \(1, 4, 3, 3\)"),
    (lambda: conv_G(np.ones((2, 4, 3, 3)), A, Conv(4, 3), form="c"), r"form of G is 'c'; Known: 'a', 'b'"),
    (lambda: conv_delta(W, np.ones((2, 4, 3, 3)), Conv(4, 3), (3, 5, 5), form="colim"), r"did you mean 'col2im'\?"),
    (lambda: conv_delta(W, np.ones((2, 4, 3, 3)), Conv(4, 3), (3, 6, 6)), r"delta has shape \(2, 4, 3, 3\)"),
    (lambda: dense_forward(np.ones((2, 3)), np.ones((5, 4))), r"a has shape \(5, 4\); W has 3 columns"),
    (lambda: dense_delta(np.ones((2, 3)), np.ones((5, 3))), r"delta has shape \(5, 3\); W has 2 rows"),
    (lambda: dense_G(np.ones((2, 3)), np.ones((5, 4))), r"delta has a batch of 2 and a one of 5"),
    (lambda: activate(A, "gelu"), r"activation is 'gelu'.*Known: 'relu', 'tanh', 'sigmoid', 'identity'"),
    (lambda: activation_slope(A, "softmax"), r"activation is 'softmax'"),
    (lambda: pool_forward(np.ones((1, 1, 2, 2)), Pool(3)), r"3"),
    (lambda: softmax_cross_entropy(np.ones((2, 3)), np.array([0, 3])), r"whole number from 0 to 2 a sample"),
    (lambda: softmax_cross_entropy(np.ones((2, 3)), np.array([0.0, 1.0])), r"shape \(2,\) and type float64"),
    (lambda: softmax_cross_entropy(np.ones((2, 3)), np.array([1])), r"labels have shape \(1,\)"),
    (lambda: squared_error(np.ones((2, 3)), np.ones((2, 1))), r"target has shape \(2, 1\) and the output \(2, 3\)"),
])  # fmt: skip
def test_wrong_input_is_one_clear_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
