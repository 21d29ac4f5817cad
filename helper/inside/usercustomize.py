# Part of sbxctl: lets show() of matplotlib, plotly and PIL save files where there is no display. Python runs this at
# each start (site, "usercustomize"), since it is in PYTHONPATH; so it only waits for one of three modules.
import sys


class _Figures:
    modules = ("matplotlib.backends.backend_agg", "plotly.io._renderers", "PIL.ImageShow")

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name not in cls.modules:
            return None
        import importlib.machinery

        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        try:
            import sbxctl_figures

            return sbxctl_figures.followed(spec)
        except Exception:
            return spec


sys.meta_path.insert(0, _Figures)
