"""The error of pipelines."""


class PipelineError(Exception):
    """A mistake in a pipeline, or something that it needs is missing.

    Its message is one sentence for whoever wrote or runs the pipeline: what is wrong, in which line of the
    file, and what to do next.
    """
