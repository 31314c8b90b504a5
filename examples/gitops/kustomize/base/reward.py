def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    """1 for an answer that ends in the right number, else 0."""
    return float(solution_str.strip().endswith(str(ground_truth)))
