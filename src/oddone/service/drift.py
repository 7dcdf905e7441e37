"""Does the stream still look like the calibration images? A conformal test martingale.

Each new score gets a p-value: its rank among the scores of the calibration images and of all images
before it, ties broken at random,

    p_n = (#{i: s_i > s_n} + theta_n #{i: s_i = s_n}) / n,  theta_n uniform in [0, 1].

As long as calibration images and stream are exchangeable, these p-values are independent and
uniform, exactly, for any number of calibration images. The Simple Jumper bets against that: three
players with e in {-1, 0, 1} have a third of the capital each, and before each image a share J of it
is shared out anew; then each is paid 1 + e (p_n - 1/2),

    C_e <- ((1 - J) C_e + J/3 S_{n-1}) (1 + e (p_n - 1/2)),  S_n = sum of C_e.

S is a martingale of mean 1, so by Ville's inequality it ever reaches c with a probability of at
most 1/c: of a hundred streams that do not change, about one at most raises the alarm at c = 100.

V. Vovk, I. Petej, I. Nouretdinov, E. Ahlberg, L. Carlsson, A. Gammerman: "Retrain or not retrain:
conformal test martingales for change-point detection", COPA 2021, Algorithm 1.
"""

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from random import Random

ALARM = 100.0
"""The capital at which the alarm is raised; 1/100 is the chance of a false one, ever."""
JUMP = 0.01
BETS = (-1.0, 0.0, 1.0)
MOST_SCORES = 200_000
"""Scores that are remembered; later ones are compared with these, which are then nearly all."""


class DriftTest:
    """A running test of whether scores still come from where the calibration scores came from.

    Examples
    --------
    >>> test = DriftTest(range(100))
    >>> for score in [500.0] * 40:
    ...     test.add(score)
    >>> test.alarm
    True

    """

    def __init__(self, calibration_scores: Iterable[float], seed: int = 0) -> None:
        self._scores = array("d", sorted(calibration_scores))
        self._random = Random(seed)  # noqa: S311  (it breaks ties)
        self._shares: Sequence[float] = (1 / len(BETS),) * len(BETS)
        self.images = 0
        """How many images of the stream have been seen."""
        self.log_capital = 0.0
        """The natural logarithm of what the players have."""
        self.highest_log_capital = 0.0

    @property
    def alarm(self) -> bool:
        """Whether the capital has ever reached `ALARM`; it stays so."""
        return self.highest_log_capital >= math.log(ALARM)

    def add(self, score: float) -> None:
        """Take the next score of the stream into account."""
        self._bet(self._p_value(score))
        self.images += 1

    def _p_value(self, score: float) -> float:
        """Return the p-value of a score among those before it, and remember the score."""
        below, place = bisect_left(self._scores, score), bisect_right(self._scores, score)
        greater, equal = len(self._scores) - place, place - below + 1  # itself is equal, too
        p_value = (greater + self._random.random() * equal) / (len(self._scores) + 1)
        if len(self._scores) < MOST_SCORES:
            self._scores.insert(place, score)
        return p_value

    def _bet(self, p_value: float) -> None:
        """Let the players bet on a p-value. Shares and a logarithm do not overflow."""
        staked = [(1 - JUMP) * share + JUMP / len(BETS) for share in self._shares]
        paid = [
            share * (1 + bet * (p_value - 0.5)) for share, bet in zip(staked, BETS, strict=True)
        ]
        growth = sum(paid)
        self._shares = [each / growth for each in paid]
        self.log_capital += math.log(growth)
        self.highest_log_capital = max(self.highest_log_capital, self.log_capital)
