"""Tests of studies draw coarse figures."""

from support.coarse_figures import coarse_figures

__all__ = ["coarse_figures"]
