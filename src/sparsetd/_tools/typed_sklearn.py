"""The base classes of scikit-learn as a type checker should see them.

scikit-learn ships no types, so a class that inherits from its bases accepts any argument: `TDC(gama=0.9)` would pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:

    class BaseEstimator:
        n_features_in_: int

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...
        def set_fit_request(self, **metadata: bool | str | None) -> Self: ...
        def set_score_request(self, **metadata: bool | str | None) -> Self: ...
        def get_metadata_routing(self) -> Any: ...
        def __sklearn_tags__(self) -> Any: ...
        def __setstate__(self, state: Any) -> None: ...
        def __getstate__(self) -> Any: ...
        def __getattr__(self, name: str) -> Any: ...  # what a solver reports becomes a fitted attribute

    class RegressorMixin: ...

else:
    from sklearn.base import BaseEstimator, RegressorMixin

__all__ = ["BaseEstimator", "RegressorMixin"]
