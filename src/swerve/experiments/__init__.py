"""Published experiments repeated on any system: the paper's questions and tables, with its printed numbers beside ours."""

from swerve.execution.cost import SAMPLED, Cost
from swerve.experiments.declaration import Experiment
from swerve.experiments.evidence import Question, chart, pictures, question, table
from swerve.experiments.results import Results, SubjectRuns
from swerve.experiments.schedule import CampaignStep, Step, TrainingStep, grid
from swerve.experiments.setting import DATA, FULL, QUICK, RUNS, USUAL, Setting
from swerve.experiments.subjects import Subject
from swerve.report.experiment_page import ChartPanel
from swerve.report.quantities import Counted, Measured, Row, averaged, box_cells, holm_corrected, rated, read_printed, total
from swerve.report.table_view import Format, TableView, percent

__all__ = [
    "DATA", "FULL", "QUICK", "RUNS", "SAMPLED", "USUAL", "CampaignStep", "ChartPanel", "Cost", "Counted", "Experiment",
    "Format", "Measured", "Question", "Results", "Row", "Setting", "Step", "Subject", "SubjectRuns", "TableView",
    "TrainingStep", "averaged", "box_cells", "chart", "grid", "holm_corrected", "percent", "pictures", "question", "rated",
    "read_printed", "table", "total",
]  # fmt: skip
