"""Scores, audits and comparisons of tagged text, from counts that add up."""

from maskedcrf.evaluation.audit import audit as audit
from maskedcrf.evaluation.conlleval import evaluate as evaluate
