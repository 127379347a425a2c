"""φ: feature maps as scikit-learn transformers, and `featurize`, which turns transitions into rows of φ and φ'."""
