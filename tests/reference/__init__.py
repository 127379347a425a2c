"""Every equation of the paper in plain NumPy, importing nothing from sparsetd: the oracles of the test suite.

    systems     A_t and b_t of every method as literal matrices; the O(d) formulas as printed; the traces
    proximal    soft thresholds, true and radial projections on the unit balls, the p-norm link
    loops       the iterations, O(d²) per step
    mdps        the star and the random walk as matrices, enumerated by hand

The loops use literal O(d²) matrices on purpose: they are slow and cannot be subtly wrong.
"""
