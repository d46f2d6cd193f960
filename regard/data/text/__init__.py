"""Sentence pairs: corpora, vocabularies, batches, BLEU."""
