"""Runs become a report: HTML to look at, Markdown for a pull request, JSON to parse."""

from ._write import FORMATS as FORMATS
from ._write import report as report
from ._write import write_report as write_report
