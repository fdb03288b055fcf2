"""Two values of riskcal (pip install riskcal, in an environment of its own) that tests/bounds/test_risk.py holds."""

from riskcal.calibration.dpsgd import get_advantage_for_dpsgd, get_beta_for_dpsgd

setting = {"noise_multiplier": 1.0, "sample_rate": 0.01, "num_steps": 1000, "grid_step": 1e-4}
print("advantage", float(get_advantage_for_dpsgd(**setting)))
print("beta", float(get_beta_for_dpsgd(alpha=0.01, **setting)))
