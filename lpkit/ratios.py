"""Exact ratios: the interval of a chain with the largest mean work, and neighbours among fractions.

Source: Dinkelbach (1967), parametric search for a ratio; Kadane's scan for the best interval; Farey sequences.
"""

from fractions import Fraction

__all__ = ["at_or_above", "below", "interval_bound"]


def interval_bound(work, caps):
    """Largest (W(a, b) - cap_b) / (b - a + 1) over all intervals of a chain, with its interval (a, b), 1-based.

    Parametric search (Dinkelbach): for a ratio r the interval with the largest W - r (b - a + 1) - cap is found in one
    pass (Kadane); it raises r until none is above. The last cap is ignored: nothing leaves the last layer.

    Examples
    --------
    >>> interval_bound([1, 9, 1], [0, 3, 0])
    (Fraction(6, 1), (2, 2))
    """
    caps = [*caps[:-1], 0]
    exact = not isinstance(work[0], float)
    value, size, where = work[0] - caps[0], 1, (1, 1)
    while True:
        found = _best_interval(work, caps, value, size)
        better = found[0] / found[1] > value / size if not exact else found[0] * size > value * found[1]
        if not better:
            return (Fraction(value, size) if exact else value / size), where
        value, size, where = found


def _best_interval(work, caps, value, size):
    """Interval with the largest size * (W - cap) - value * length, as (W - cap, length, (a, b))."""
    best, found, run, start = 0, (value, size, None), 0, 1
    for b, (w, cap) in enumerate(zip(work, caps), 1):
        if run < 0:
            run, start = 0, b
        run += size * w - value
        if run - size * cap > best:
            best, found = run - size * cap, (None, b - start + 1, (start, b))
    if found[2] is None:
        return found
    a, b = found[2]
    return sum(work[a - 1 : b]) - caps[b - 1], b - a + 1, (a, b)


def below(number, denominators):
    """Largest fraction below `number` with a denominator of at most `denominators`.

    Examples
    --------
    >>> below(Fraction(1, 2), 5)
    Fraction(2, 5)
    """
    a, b = number.numerator, number.denominator
    if b <= denominators:
        # Neighbours p/q < a/b of a Farey sequence satisfy a q - b p = 1.
        q = pow(a, -1, b) if b > 1 else 1
        q += (denominators - q) // b * b
        return Fraction((a * q - 1) // b, q)
    top, bottom = 0, 0
    for q in range(1, denominators + 1):
        p = (a * q - 1) // b
        if not bottom or p * bottom > top * q:
            top, bottom = p, q
    return Fraction(top, bottom)


def at_or_above(number, denominators):
    """Smallest fraction that is not below `number`, with a denominator of at most `denominators`.

    Examples
    --------
    >>> at_or_above(Fraction(1, 7), 5)
    Fraction(1, 5)
    """
    number = Fraction(number)
    return number if number.denominator <= denominators else -below(-number, denominators)
