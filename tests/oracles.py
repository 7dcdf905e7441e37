"""The paper's equations as slow loops over Python floats. Nothing here shares code with oddone."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

Vector = Sequence[float]


# --- Section 2: masked contrastive learning ---------------------------------------------------


def cosine(z_i: Vector, z_j: Vector) -> float:
    dot = sum(a * b for a, b in zip(z_i, z_j, strict=True))
    return dot / (math.hypot(*z_i) * math.hypot(*z_j))


def simclr(z: Sequence[Vector], parents: Sequence[int], tau: float) -> float:
    """Eq. 1 and 2, averaged over the siblings of a row."""
    rows = range(len(z))
    losses = []
    for i in rows:
        denominator = sum(math.exp(cosine(z[i], z[k]) / tau) for k in rows if k != i)
        siblings = [j for j in rows if j != i and parents[j] == parents[i]]
        losses.append(
            _mean(-math.log(math.exp(cosine(z[i], z[j]) / tau) / denominator) for j in siblings)
        )
    return sum(losses) / len(z)


def supcon(
    z: Sequence[Vector],
    labels: Sequence[int],
    parents: Sequence[int],
    tau: float,
    *,
    siblings: bool,
) -> float:
    """Appendix B; with siblings, Khosla et al.'s original."""
    rows = range(len(z))
    losses = []
    for i in rows:
        denominator = sum(math.exp(cosine(z[i], z[k]) / tau) for k in rows if k != i)
        positives = [
            j
            for j in rows
            if j != i and labels[j] == labels[i] and (siblings or parents[j] != parents[i])
        ]
        losses.append(
            _mean(-math.log(math.exp(cosine(z[i], z[j]) / tau) / denominator) for j in positives)
        )
    return sum(losses) / len(z)


def mcl(
    z: Sequence[Vector],
    labels: Sequence[int],
    poses: Sequence[int],
    parents: Sequence[int],
    *,
    tau: float,
    alpha: float,
    beta: float,
    softmax: bool = False,
    clamp: bool = False,
    sibling_ones: bool = False,
    drawn: Sequence[Sequence[int]] | None = None,
) -> tuple[float, float]:
    """Eq. 6 and 9. `drawn[i]` are the partners that row i attracts; by default all (Eq. 7)."""
    rows = range(len(z))

    def sim(i: int, j: int) -> float:
        return max(cosine(z[i], z[j]), 1e-7) if clamp else cosine(z[i], z[j])

    def ccm_mask(i: int, j: int) -> float:  # Eq. 11
        if labels[i] == labels[j] and poses[i] == poses[j]:
            return alpha
        if labels[i] == labels[j]:
            return beta
        return 1 / tau

    def minus_log_p(i: int, j: int, among: Sequence[int], ones: int = 0) -> float:  # Eq. 4, 5, 8
        denominator = float(ones)
        for k in among:
            own_term = softmax and k == j
            denominator += math.exp(sim(i, k) * (1 / tau if own_term else ccm_mask(i, k)))
        return -math.log(math.exp(sim(i, j) / tau) / denominator)

    ccm, spa = [], []
    for i in rows:
        siblings = [j for j in rows if j != i and parents[j] == parents[i]]
        others = [k for k in rows if k != i]
        ccm.append(_mean(minus_log_p(i, j, others) for j in siblings))  # Eq. 6

        partners = [  # Eq. 7
            j
            for j in rows
            if labels[j] == labels[i] and poses[j] == poses[i] and parents[j] != parents[i]
        ]
        other_parents = [k for k in rows if parents[k] != parents[i]]
        attracted = partners if drawn is None or not partners else drawn[i]
        ones = len(siblings) if sibling_ones else 0
        spa.append(_mean(minus_log_p(i, j, other_parents, ones) for j in attracted))  # Eq. 9
    return sum(ccm) / len(z), sum(spa) / len(z)


def same_views(
    parents: Sequence[int], partner_images: Mapping[int, Sequence[int]]
) -> list[list[int]]:
    """For each row, the same view of every image that its parent has drawn (the authors' code).

    A row that is the n-th of its parent attracts the n-th row of the drawn image. If that has
    fewer rows, counting starts again at its first.
    """
    rows_of: dict[int, list[int]] = {}
    for row, parent in enumerate(parents):
        rows_of.setdefault(parent, []).append(row)
    attracted = []
    for row, parent in enumerate(parents):
        view = rows_of[parent].index(row)
        views = [rows_of[drawn] for drawn in partner_images[parent]]
        attracted.append([rows[view % len(rows)] for rows in views])
    return attracted


# --- Section 3: inference ---------------------------------------------------------------------


def mean_and_covariance(rows: Sequence[Vector]) -> tuple[list[float], list[list[float]]]:
    """Maximum likelihood: the covariance is divided by the number of rows."""
    dim = range(len(rows[0]))
    mean = [math.fsum(row[a] for row in rows) / len(rows) for a in dim]
    covariance = [
        [
            math.fsum((row[a] - mean[a]) * (row[b] - mean[b]) for row in rows) / len(rows)
            for b in dim
        ]
        for a in dim
    ]
    return mean, covariance


def exact_mean_and_covariance(
    rows: Sequence[Vector],
) -> tuple[list[Fraction], list[list[Fraction]]]:
    """The same without any rounding: every float is a fraction."""
    columns = [[Fraction(value) for value in column] for column in zip(*rows, strict=True)]
    mean = [sum(column, Fraction()) / len(rows) for column in columns]
    centred = [[value - m for value in c] for c, m in zip(columns, mean, strict=True)]
    covariance = [
        [sum((x * y for x, y in zip(a, b, strict=True)), Fraction()) / len(rows) for b in centred]
        for a in centred
    ]
    return mean, covariance


def mahalanobis(z: Vector, mean: Vector, covariance: Sequence[Vector]) -> float:
    """The square root of Eq. 12's quadratic form, by Gaussian elimination."""
    centred = [a - b for a, b in zip(z, mean, strict=True)]
    solved = _solve(covariance, centred)
    return math.sqrt(sum(a * b for a, b in zip(centred, solved, strict=True)))


def fused(name: str, distances: Sequence[Sequence[float]]) -> list[float]:
    """One image's distances [views][classes] to one score per class, through the paper's S = -d."""
    scores = [[-d for d in view] for view in distances]
    views, classes = range(len(scores)), range(len(scores[0]))
    if name == "average":  # Eq. 17
        fused_scores = [sum(scores[m][n] for m in views) / len(scores) for n in classes]
    elif name == "nearest":  # Eq. 18
        fused_scores = [max(scores[m][n] for m in views) for n in classes]
    elif name == "view_weighted":  # Eq. 19 and 20
        weights = [1 / sum(1 / scores[m][n] for n in classes) for m in views]
        fused_scores = [
            sum(weights[m] * scores[m][n] for m in views) / sum(weights) for n in classes
        ]
    elif name == "harmonic":  # the published code
        fused_scores = [len(scores) / sum(1 / scores[m][n] for m in views) for n in classes]
    else:
        raise KeyError(name)
    return [-s for s in fused_scores]


# --- Metrics ----------------------------------------------------------------------------------


def auroc(ind: Vector, ood: Vector) -> float:
    wins = sum((o > i) + 0.5 * (o == i) for o in ood for i in ind)
    return wins / (len(ind) * len(ood))


def average_precision(positives: Vector, negatives: Vector) -> float:
    """Sum of precision times the step in recall, over the thresholds from the highest down."""
    total, recall = 0.0, 0.0
    for threshold in sorted({*positives, *negatives}, reverse=True):
        hits = sum(p >= threshold for p in positives)
        false = sum(n >= threshold for n in negatives)
        step = hits / len(positives) - recall
        total += step * hits / (hits + false)
        recall += step
    return total


def aupr_trapezoid(positives: Vector, negatives: Vector) -> float:
    """Area under the lines that join the points of all thresholds, from recall 0, precision 1."""
    total, recall, precision = 0.0, 0.0, 1.0
    for threshold in sorted({*positives, *negatives}, reverse=True):
        hits = sum(p >= threshold for p in positives)
        false = sum(n >= threshold for n in negatives)
        new_recall, new_precision = hits / len(positives), hits / (hits + false)
        total += (new_recall - recall) * (precision + new_precision) / 2
        recall, precision = new_recall, new_precision
    return total


def fpr_at_95_ind(ind: Vector, ood: Vector) -> float:
    for threshold in sorted(ind):
        if sum(i <= threshold for i in ind) * 100 >= 95 * len(ind):
            return sum(o <= threshold for o in ood) / len(ood)
    raise AssertionError


def fpr_at_95_ood(ind: Vector, ood: Vector) -> float:
    for threshold in sorted(ood, reverse=True):
        if sum(o >= threshold for o in ood) * 100 >= 95 * len(ood):
            return sum(i >= threshold for i in ind) / len(ind)
    raise AssertionError


def _mean(values: object) -> float:
    listed = list(values)  # type: ignore[call-overload]
    return sum(listed) / len(listed) if listed else 0.0


def _solve(matrix: Sequence[Vector], right: Vector) -> list[float]:
    a = [[*row, r] for row, r in zip(matrix, right, strict=True)]
    n = len(a)
    for col in range(n):
        pivot = max(range(col, n), key=lambda row: abs(a[row][col]))
        a[col], a[pivot] = a[pivot], a[col]
        for row in range(col + 1, n):
            factor = a[row][col] / a[col][col]
            a[row] = [x - factor * y for x, y in zip(a[row], a[col], strict=True)]
    solution = [0.0] * n
    for row in reversed(range(n)):
        known = sum(a[row][k] * solution[k] for k in range(row + 1, n))
        solution[row] = (a[row][n] - known) / a[row][row]
    return solution
