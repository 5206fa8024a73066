"""Changing engines: plan, job, phases, proofs."""
