"""The backend that matplotlib draws with in kernel.py: a figure that is shown becomes a result, picture and chart."""

import builtins
import io

from matplotlib import pyplot
from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas  # noqa: F401, matplotlib takes it from here
from matplotlib.patches import Rectangle


def show(*arguments, **options):
    """Every open figure, which is closed by it."""
    for number in pyplot.get_fignums():
        builtins.display(Figure(pyplot.figure(number)))
        pyplot.close(number)


class Figure:
    def __init__(self, figure):
        self.figure = figure

    def __repr__(self):
        width, height = self.figure.get_size_inches() * self.figure.dpi
        return f"<Figure size {width:.0f}x{height:.0f} with {len(self.figure.axes)} Axes>"

    def _repr_png_(self):
        data = io.BytesIO()
        self.figure.savefig(data, format="png", bbox_inches="tight")
        return data.getvalue()

    def _repr_e2b_chart_(self):
        charts = [chart_of(axes) for axes in self.figure.axes]
        if len(charts) == 1:
            return charts[0]
        return {"type": "superchart", "title": "", "elements": charts}


def chart_of(axes):
    """What E2B tells of lines, points and bars; everything else is of type unknown."""
    chart = {"type": "unknown", "title": axes.get_title(), "elements": [], "x_label": axes.get_xlabel(), "y_label": axes.get_ylabel()}
    bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    if axes.lines:
        chart["type"] = "line"
        chart["elements"] = [{"label": line.get_label(), "points": [[str(x), float(y)] for x, y in zip(line.get_xdata(), line.get_ydata())]}
                             for line in axes.lines]
    elif axes.collections:
        chart["type"] = "scatter"
        chart["elements"] = [{"label": points.get_label(), "points": [list(map(float, point)) for point in points.get_offsets()]}
                             for points in axes.collections]
    elif bars:
        chart["type"] = "bar"
        labels = [label.get_text() for label in axes.get_xticklabels()]
        chart["elements"] = [{"label": label, "value": str(bar.get_height()), "group": ""} for label, bar in zip(labels, bars)]
    return chart
