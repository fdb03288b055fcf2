"""What theory promises of a training run: certified upper bounds on what any attack can learn of one record."""

from .closed_form import accuracy_bound, chi_square, noise_multiplier_for_accuracy, one_line_bound
from .interval import Interval
from .trade_off import (
    TradeOffCurve,
    chi_square_curve,
    epsilon_delta_curve,
    gaussian_curve,
    polygon_curve,
    total_variation_curve,
)

__all__ = [
    "Interval",
    "TradeOffCurve",
    "accuracy_bound",
    "chi_square",
    "chi_square_curve",
    "epsilon_delta_curve",
    "gaussian_curve",
    "noise_multiplier_for_accuracy",
    "one_line_bound",
    "polygon_curve",
    "total_variation_curve",
]
