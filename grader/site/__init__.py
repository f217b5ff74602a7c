"""The course as static pages, to be read without running anything (make site).

build: which pages there are, and the command. execute: a solution notebook with its outputs. gallery: a picture of each
technique. pages: a notebook, a text or pictures as one page, from page.html. formulas: TeX, drawn. searching: the words of
units and glossary. site.css, search.js: how pages look and are searched.
"""
