# frozen_string_literal: true

def median(figures)
  sorted = figures.sort
  (sorted[(sorted.size - 1) / 2] + sorted[sorted.size / 2]) / 2.0
end
