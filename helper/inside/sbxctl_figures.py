"""Part of sbxctl: what a script only shows is saved as figure-1.png and so on, in the directory whose files are kept.

Each library is told where it leaves the decision to others: matplotlib by the manager of its figures, plotly by its
renderers, PIL by its viewers. Nothing here may make a script fail that would not fail without it.
"""

import functools
import os
import sys
import weakref

DIRECTORY = "/workspace"
MOST = 200  # a loop that shows figures without an end must not fill the workspace


def followed(spec):
    """The spec of a module, so that what it is to do differently is told to it when it has been loaded."""
    run = spec.loader.exec_module
    adapt = ADAPTERS[spec.name]

    @functools.wraps(run)
    def exec_module(module):
        run(module)
        try:
            adapt(module)
        except Exception as error:  # a version that is built otherwise
            complain(error)

    spec.loader.exec_module = exec_module
    return spec


def complain(error):
    print(f"sbxctl: a figure was not saved: {error}", file=sys.stderr)


def save(write, suffix):
    """Has write(path) make the next figure. Never raises; returns whether there is one."""
    try:
        taken = {os.path.splitext(name)[0] for name in os.listdir(DIRECTORY)}
        number = next((n for n in range(1, MOST + 1) if f"figure-{n}" not in taken), None)
        if number is None:
            raise OSError(f"there are {MOST} already")
        write(f"{DIRECTORY}/figure-{number}{suffix}")
        return True
    except Exception as error:
        complain(error)
        return False


def adapt_matplotlib(module):
    from matplotlib._pylab_helpers import Gcf
    from matplotlib.backend_bases import FigureManagerBase

    canvas = module.FigureCanvasAgg
    print_figure = canvas.print_figure
    shown = []  # the last figure that was
    saved = weakref.WeakSet()  # by the script itself

    def is_empty(figure):
        return not (figure.axes or figure.texts or figure.images or figure.lines or figure.patches or figure.legends)

    # savefig() after show() means what was shown, and pyplot has made a new, empty figure by then.
    @functools.wraps(print_figure)
    def print_figure_or_last(self, filename, *arguments, **options):
        if shown and shown[0] is not self.figure and is_empty(self.figure):
            self = shown[0].canvas
        result = print_figure(self, filename, *arguments, **options)
        if isinstance(filename, (str, os.PathLike)):
            saved.add(self.figure)
            self.figure.stale = False  # until something is changed in it
        return result

    canvas.print_figure = print_figure_or_last

    class Manager(FigureManagerBase):
        def show(self):
            figure = self.canvas.figure
            if is_empty(figure):
                return
            shown[:] = [figure]
            if figure not in saved or figure.stale:
                save(functools.partial(print_figure, self.canvas, dpi=figure.dpi), ".png")

        # Like closing all windows, which is what show() waits for elsewhere.
        @classmethod
        def pyplot_show(cls, *arguments, **options):
            for manager in Gcf.get_all_fig_managers():
                manager.show()
            Gcf.destroy_all()

    canvas.manager_class = Manager
    # Before 3.6 these were looked up here.
    module.FigureManager = module._BackendAgg.FigureManager = Manager
    module.show = Manager.pyplot_show


def adapt_plotly(module):
    from plotly.io._base_renderers import ExternalRenderer

    class Saver(ExternalRenderer):
        def __init__(self, suffix=".html"):
            self.suffix = suffix

        # An image takes the package kaleido, and that takes a browser.
        def render(self, figure):
            from plotly.io import write_html, write_image

            if self.suffix != ".html" and save(functools.partial(write_image, figure), self.suffix):
                return
            save(functools.partial(write_html, figure), ".html")

    images = {"png": ".png", "jpeg": ".jpg", "jpg": ".jpg", "svg": ".svg", "pdf": ".pdf"}
    for name in list(module.renderers):
        module.renderers[name] = Saver(images.get(name, ".html"))
    module.renderers.default = "browser"


def adapt_pil(module):
    class Saver(module.Viewer):
        format = "PNG"

        def show(self, image, **options):
            if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16"):
                image = image.convert("RGB")
            save(functools.partial(image.save, format="PNG"), ".png")
            return 1

        def get_command(self, file, **options):
            return "true"

    module.register(Saver, -1)


ADAPTERS = {
    "matplotlib.backends.backend_agg": adapt_matplotlib,
    "plotly.io._renderers": adapt_plotly,
    "PIL.ImageShow": adapt_pil,
}
