"""Names that a user chooses among, known without importing torch: a mistyped one is told at once."""

from __future__ import annotations

SCORES = ("phi", "loss", "hinge", "difference")
VIEWS = {
    1: ("identity",),
    2: ("mirror",),
    9: ("shift1",),
    18: ("mirror", "shift1"),
    25: ("shift2",),
    50: ("mirror", "shift2"),
}
ATTACKS = (
    "lira_online",
    "lira_offline",
    "base_online",
    "rmia_offline",
    "calibrated_loss",
    "attack_r",
    "loss",
    "phi",
    "hinge",
    "attack_p",
)
TARGET_ONLY = ("loss", "phi", "hinge", "attack_p")  # need no shadow model
LAYOUTS = ("mi_lira_2021", "lira-pytorch", "lira_analysis", "ml_privacy_meter")
SUFFIXES = (".csv", ".parquet", ".npz")
