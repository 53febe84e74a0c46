"""Configuration of the documentation site (``make site``): Sphinx, MyST, Furo and sphinx-gallery, without a network."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # docs.extensions

import squad

project = "squad-torch"
author = "the squad-torch authors"
version = release = squad.__version__
html_title = "squad-torch"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "docs.extensions.mathml",
    "docs.extensions.readable_docstrings",
    "docs.extensions.readable_signatures",
    "docs.extensions.repository_links",
]
exclude_patterns = ["_build", "gallery", "extensions", "performance", "sections"]

# Markdown
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # generated sections begin below the level of their page

# Docstrings
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 88

# Gallery: every example runs when the site is built, and one that fails ends the build.
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": r"/plot_",
    "image_scrapers": ("matplotlib",),
    "within_subsection_order": "docs.extensions.gallery_order.GalleryOrder",
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "remove_config_comments": True,
}

# Pages
html_theme = "furo"
pygments_dark_style = "github-dark"  # the default underlines names of modules, like links
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
