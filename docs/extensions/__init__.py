"""Extensions of Sphinx for this site: formulas, signatures, links to files of the repository, order of the gallery."""
