"""Answerability in responses: probability of a search, calibration of an evaluation run."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from retrieval.search.answerability import Answerability, Verdict

MinProbability = Annotated[
    float,
    Meta(
        ge=0,
        le=1,
        description="Minimum probability that the results answer the query; below it, there are no results.",
        examples=[0.3],
    ),
]
NOTE_DESCRIPTION = (
    "Interpretation of the query's quotes and exclusions, corrected words, or the reason for no results: the query has"
    " only stop words, or the probability is below `minProbability`."
)


class Answerable(Struct, rename="camel"):
    """Estimate of whether the results answer the query, as a verdict and a probability."""

    verdict: Annotated[
        Verdict, Meta(description="Likely from a probability of 0.7, unlikely below 0.3.", examples=["likely"])
    ]
    probability: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Probability that the results answer the query. Compare it with minProbability; only a fit on"
            " your own evaluation makes it exact.",
            examples=[0.87],
        ),
    ]
    basis: Annotated[
        str,
        Meta(description="The data that the probability was fitted on.", examples=["fitted on public sets"]),
    ]

    answered_share: Annotated[
        float | UnsetType,
        Meta(
            description="Share of questions with an answer among the held-out questions of public sets with this"
            " verdict. Absent after a fit on your own questions.",
            examples=[0.9],
        ),
    ] = UNSET

    @classmethod
    def from_estimate(cls, answerability: Answerability) -> Answerable:
        share = answerability.answered_share
        return cls(
            answerability.verdict,
            answerability.probability,
            answerability.basis,
            UNSET if share is None else share,
        )


class CalibrationBin(Struct, rename={"lower": "from", "upper": "to"}):
    """Questions with a probability in a tenth of the range, and the share of answered questions."""

    lower: Annotated[float, Meta(description="Lower bound of the probability.")]
    upper: Annotated[float, Meta(description="Upper bound of the probability.")]
    questions: Annotated[int, Meta(description="Number of questions.")]
    probability: Annotated[float, Meta(description="Mean probability of the questions.")]
    answered: Annotated[float, Meta(description="Share of the questions that have an answer.")]


class Calibration(Struct, rename={"refused_at95": "refusedAt95"}):
    """Accuracy of `answerable` on questions with and without an answer.

    Figures of a fit come from held-out questions.
    """

    questions: Annotated[int, Meta(description="Number of questions.")]
    unanswerable: Annotated[int, Meta(description="Number of questions without a relevant document.")]
    fitted: Annotated[bool, Meta(description="Whether searches use a fit on these questions from now on.")]
    auroc: Annotated[float, Meta(description="Area under the ROC curve: 1 separates the two kinds, 0.5 is chance.")]
    ece: Annotated[float, Meta(description="Expected calibration error, in ten bins.")]
    refused_at95: Annotated[
        float,
        Meta(description="Share of unanswerable questions below the threshold that keeps 95 % of the answerable ones."),
    ]
    bins: Annotated[list[CalibrationBin], Meta(description="Bins by probability, without empty ones.")]


class CorrectedWord(Struct):
    """A query word without a match, and the words searched instead."""

    word: Annotated[str, Meta(description="The word of the query.")]
    words: Annotated[list[str], Meta(description="The words that were searched instead.")]
