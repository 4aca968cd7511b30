"""What a bundle answers: translations, scores, sentence vectors, rerankings, alignments."""
