"""Problems: values, subgradients, optima and constants against independent computations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from lpkit.computation_graph import ComputationGraph
from lpkit.hard_functions import l1_chain, nesterov_max, nonconvex_chain, smooth_chain
from lpkit.problems import Problem, finite_sum, linf_penalised, max_affine, random_max_affine
from lpkit.prox import l1_ball_projection, linf_prox

CONVEX = [random_max_affine(12, 30, seed=1, R=2.0), random_max_affine(6, 9, samples=4), smooth_chain(9, beta=3, R=2),
          l1_chain(7, L=2.0, R=3.0), nesterov_max(5, dimension=8, L=3.0, R=2.0),
          linf_penalised(random_max_affine(5, 9), 0.5)]  # fmt: skip
EVERY = [*CONVEX, nonconvex_chain(6, beta=2.0, D=500.0), smooth_chain(1), l1_chain(1), smooth_chain(2), l1_chain(2)]
NAMES = [f"{p.name} {p.dimension}" for p in EVERY]


def near(problem, count, seed=0):
    """Points in the ball of radius R around the start, and the start."""
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((count, problem.dimension))
    lengths = (problem.R or 1.0) * rng.random((count, 1))
    return np.vstack([problem.start, lengths * directions / np.linalg.norm(directions, axis=1, keepdims=True)])


@pytest.mark.parametrize("problem", EVERY, ids=NAMES)
def test_subgradients_agree_with_differences(problem):
    points = near(problem, 20)[1:]  # at random points the function is smooth
    values, slopes = problem.value_and_subgradient(points)
    assert np.array_equal(values, problem.value(points)) or np.allclose(values, problem.value(points), rtol=1e-13)
    rng = np.random.default_rng(2)
    along = rng.standard_normal(points.shape)
    difference = (problem.value(points + 1e-7 * along) - problem.value(points - 1e-7 * along)) / 2e-7
    assert np.allclose(difference, (slopes * along).sum(axis=1), rtol=1e-5, atol=1e-5 * abs(slopes).max())


@pytest.mark.parametrize("problem", CONVEX, ids=NAMES[: len(CONVEX)])
def test_subgradients_support_a_convex_function_from_below(problem):
    points = near(problem, 40)
    values, slopes = problem.value_and_subgradient(points)
    below = values[:, None] + slopes @ points.T - (slopes * points).sum(axis=1)[:, None]
    assert (below <= values + 1e-9).all()


@pytest.mark.parametrize("problem", [p for p in EVERY if p.minimiser is not None and p.optimum is not None],
                         ids=lambda p: f"{p.name} {p.dimension}")
def test_optimum_minimiser_and_distance(problem):
    assert problem.value(problem.minimiser[None])[0] == pytest.approx(problem.optimum, abs=1e-12)
    assert np.linalg.norm(problem.minimiser - problem.start) == pytest.approx(problem.R)
    assert (problem.value(near(problem, 200)) >= problem.optimum - 1e-12).all()
    around = problem.minimiser + 1e-3 * np.random.default_rng(0).standard_normal((200, problem.dimension))
    assert (problem.value(around) >= problem.optimum - 1e-12).all()


@pytest.mark.parametrize("problem", [p for p in EVERY if p.L is not None], ids=lambda p: f"{p.name} {p.dimension}")
def test_no_subgradient_is_longer_than_L(problem):
    _, slopes = problem.value_and_subgradient(near(problem, 300))
    assert np.linalg.norm(slopes, axis=1).max() <= problem.L * (1 + 1e-12)


@pytest.mark.parametrize("problem", [p for p in EVERY if p.beta is not None], ids=lambda p: f"{p.name} {p.dimension}")
def test_gradients_are_beta_lipschitz(problem):
    scale = np.random.default_rng(1).exponential(30.0, (400, 1))
    points = scale * near(problem, 399)
    others = points + 1e-4 * np.random.default_rng(2).standard_normal(points.shape)
    change = problem.value_and_subgradient(points)[1] - problem.value_and_subgradient(others)[1]
    ratio = np.linalg.norm(change, axis=1) / np.linalg.norm(points - others, axis=1)
    assert 0.02 * problem.beta < ratio.max() <= problem.beta * (1 + 1e-6)


def test_the_nonconvex_chain_drops_by_at_most_D():
    problem = nonconvex_chain(5, beta=2.0, D=7.0)
    low = min(minimize(lambda x: problem.value(x[None])[0], start, method="BFGS").fun
              for start in 5 * np.random.default_rng(0).standard_normal((10, 5)))  # fmt: skip
    assert problem.value(np.zeros((1, 5)))[0] - low <= problem.D
    rng = np.random.default_rng(3)
    for known in range(5):  # a coordinate that is still 0 keeps the gradient long
        points = np.zeros((500, 5))
        points[:, :known] = rng.standard_normal((500, known)) * rng.exponential(10, (500, 1))
        lengths = np.linalg.norm(problem.value_and_subgradient(points)[1], axis=1)
        assert lengths.min() > problem.gradient_floor


@pytest.mark.parametrize("make", [smooth_chain, l1_chain, nonconvex_chain])
@pytest.mark.parametrize("depth", [1, 2, 3, 11])
@pytest.mark.parametrize("coordinates", [1, 2, 5, 6])
def test_a_graph_is_the_same_function(make, depth, coordinates):
    problem = make(coordinates, depth=depth)
    assert isinstance(problem.graph, ComputationGraph) and problem.graph.depth == problem.depth == depth
    points = np.random.default_rng(0).standard_normal((9, coordinates))
    for ours, theirs in zip(problem.value_and_subgradient(points), problem.graph.value_and_subgradient(points)):
        assert np.allclose(ours, theirs, rtol=1e-13, atol=1e-15)


def test_max_affine_against_a_plain_loop_and_a_linear_programme():
    rng = np.random.default_rng(5)
    A, b, x = rng.standard_normal((400, 3)), rng.standard_normal(400), rng.standard_normal((600, 3))
    problem = max_affine(A, b)
    values, slopes = problem.value_and_subgradient(x)
    for point, value, slope in zip(x, values, slopes):
        residuals = [sum(a * p for a, p in zip(row, point)) - shift for row, shift in zip(A.tolist(), b.tolist())]
        i = max(range(400), key=lambda i: abs(residuals[i]))
        assert value == pytest.approx(abs(residuals[i])) and np.array_equal(slope, np.sign(residuals[i]) * A[i])
    ones = np.ones((400, 1))
    least = linprog([0, 0, 0, 1], np.block([[A, -ones], [-A, -ones]]), np.concatenate([b, -b]), bounds=(None, None))
    assert (values >= least.fun).all() and problem.value(least.x[None, :3])[0] == pytest.approx(least.fun)


def test_what_is_known_of_max_affine_goes_before_what_is_computed():
    assert max_affine([[3, 4]], [0]).L == 5
    assert max_affine([[3, 4]], [0], L=2).L == 2


def test_ties_and_kinks_follow_the_conventions():
    tie = max_affine([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0])
    assert tie.value_and_subgradient(np.zeros((1, 2)))[1].tolist() == [[-1.0, 0.0]]
    kink = max_affine([[2.0]], [2.0])
    assert kink.value_and_subgradient(np.ones((1, 1)))[1].tolist() == [[0.0]]
    assert nesterov_max(3).value_and_subgradient(np.zeros((1, 3)))[1][0].argmax() == 0


@pytest.mark.parametrize("problem", EVERY, ids=NAMES)
def test_float32_stays_float32(problem):
    points = near(problem, 4).astype("float32")
    values, slopes = problem.value_and_subgradient(points)
    assert values.dtype == slopes.dtype == problem.value(points).dtype == np.float32
    exact, _ = problem.value_and_subgradient(points.astype(float))
    assert np.allclose(values, exact, rtol=1e-4, atol=1e-5)


def test_finite_sum_is_the_mean():
    parts = [random_max_affine(4, 5, seed=s) for s in range(3)]
    whole, x = finite_sum(parts), np.random.default_rng(0).standard_normal((7, 4))
    assert np.allclose(whole.value(x), np.mean([p.value(x) for p in parts], axis=0))
    mean = np.mean([p.value_and_subgradient(x)[1] for p in parts], axis=0)
    assert np.allclose(whole.value_and_subgradient(x)[1], mean)
    assert (whole.samples, whole.L) == (3, 1.0)


# the proximal map


def by_hand(point, step):
    """Least value of step |u|_inf + |u - point|^2/2 over the level t of a cut, by a fine search: an oracle."""
    levels = np.linspace(0, abs(point).max(), 20001)
    cut = np.clip(point, -levels[:, None], levels[:, None])
    costs = step * levels + ((cut - point) ** 2).sum(axis=1) / 2
    return costs.min()


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=8), st.floats(0, 20))
def test_prox_is_the_minimiser(point, step):
    point = np.array(point)
    found = linf_prox(point[None], step)[0]
    cost = step * abs(found).max() + ((found - point) ** 2).sum() / 2
    assert cost <= by_hand(point, step) + 1e-12
    assert cost >= by_hand(point, step) - 1e-6 * (1 + step)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=8), st.floats(0, 20))
def test_prox_satisfies_the_conditions_of_optimality(point, step):
    """What is cut off is a subgradient: step times weights on the largest coordinates that sum to 1, or less at 0."""
    point = np.array(point)
    found = linf_prox(point[None], step)[0]
    off = point - found
    assert abs(off).sum() <= step + 1e-9
    assert off @ found == pytest.approx(step * abs(found).max(), abs=1e-8)


def test_projection_against_a_quadratic_programme():
    rng = np.random.default_rng(0)
    for point in 2 * rng.standard_normal((10, 4)):
        start = np.maximum(np.concatenate([point, -point]), 0) / (1 + abs(point).sum())
        split = minimize(lambda z, point=point: ((z[:4] - z[4:] - point) ** 2).sum(), start, method="SLSQP",
                         bounds=[(0, None)] * 8,
                         constraints={"type": "ineq", "fun": lambda z: 1.5 - z.sum()})  # fmt: skip
        assert np.allclose(l1_ball_projection(point[None], 1.5)[0], split.x[:4] - split.x[4:], atol=1e-3)


def test_prox_of_many_points_with_their_own_steps():
    points, steps = np.random.default_rng(0).standard_normal((6, 5)), np.array([0, 0.1, 0.5, 1, 3, 100.0])
    together = linf_prox(points, steps)
    assert np.array_equal(together, np.vstack([linf_prox(p[None], s) for p, s in zip(points, steps)]))
    assert np.array_equal(together[0], points[0]) and not together[-1].any()


@pytest.mark.parametrize("call, message", [
    (lambda: max_affine([[1, 2]], [1, 2]), "there are 1 slopes and 2 offsets; give as many"),
    (lambda: max_affine([[np.nan]], [1]), "slopes has shape (1, 1); give finite numbers in 2 dimension(s)"),
    (lambda: max_affine("no", [1]), "slopes is 'no'; give an array of numbers"),
    (lambda: random_max_affine(R=-1), "R is -1; it must be a finite number above 0"),
    (lambda: random_max_affine(rows=0), "rows is 0; it must be a whole number from 1"),
    (lambda: finite_sum([]), "give at least one part, all of one dimension"),
    (lambda: finite_sum([l1_chain(2), l1_chain(3)]), "the parts have the dimensions [2, 3]"),
    (lambda: linf_penalised(l1_chain(2), -1), "weight is -1; it must be a finite number of at least 0"),
    (lambda: linf_penalised(l1_chain(2), 1, centre=[1]), "the centre has shape (1,); the loss needs (2,)"),
    (lambda: l1_chain(3).value(np.zeros(3)), "points have shape (3,) and type float64; l1 chain needs numbers"),
    (lambda: l1_chain(3, L=np.nan), "L is nan; it must be a finite number above 0"),
    (lambda: smooth_chain(3, depth=0), "depth is 0; it must be a whole number from 1"),
    (lambda: nesterov_max(3, dimension=2), "dimension is 2; it must be a whole number from 3"),
    (lambda: Problem("f", 3, None, start=[1]), "the start has shape (1,); f needs (3,)"),
    (lambda: l1_ball_projection(np.ones((1, 2)), -1), "a radius is negative or NaN; give radii of at least 0"),
])  # fmt: skip
def test_messages(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value) and "\n" not in str(error.value)
