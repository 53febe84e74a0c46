"""Extensions of Sphinx for this site: formulas, links to files of the repository, pages of the experiments."""
