"""Figures of predictions in NumPy, for make_figures.py."""
import numpy

BINS = 15


def divide(above, below):
    return numpy.divide(above, below, out=numpy.zeros_like(above, dtype=float), where=below != 0)


def class_figures(matrix):
    """Long et al., arXiv 1411.4038, section 5; means of recall over the classes that occur, others also over those predicted."""
    right, occurring, predicted = numpy.diag(matrix).astype(float), matrix.sum(1).astype(float), matrix.sum(0).astype(float)
    made = dict(
        recall=divide(right, occurring),
        precision=divide(right, predicted),
        f1=divide(2 * right, occurring + predicted),
        iou=divide(right, occurring + predicted - right),
    )
    there, named = occurring > 0, (occurring > 0) | (predicted > 0)
    means = {f"mean_{name}": values[there if name == "recall" else named].mean() for name, values in made.items()}
    return made, dict(
        accuracy=right.sum() / matrix.sum(), weighted_iou=(occurring * made["iou"]).sum() / matrix.sum(), **means
    )


def softmax(outputs):
    """Over the last axis."""
    scores = numpy.exp(outputs - outputs.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True)


def calibration_bins(confidence, right):
    """Count, sum of confidences and number of right ones of each bin ((m - 1) / M, m / M]."""
    bins = numpy.clip(numpy.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)
    return [numpy.bincount(bins, weights=of, minlength=BINS) for of in (numpy.ones(len(bins)), confidence, right.astype(float))]


def calibration_error(confidence, right):
    """Guo et al., "On calibration of modern neural networks", arXiv 1706.04599, equation 3."""
    _, confidences, rights = calibration_bins(confidence, right)
    return numpy.abs(rights - confidences).sum() / len(confidence)


def luminance_of(pixels):
    """ITU-R BT.601, of (H, W, 3) in [0, 255]; (H, W, 1)."""
    return 16 + (pixels @ numpy.array([65.481, 128.553, 24.966]))[..., None] / 255


def signal_to_noise_ratio(a, b):
    """PSNR of pixels in [0, 255]."""
    return float(10 * numpy.log10(255**2 / ((a - b) ** 2).mean()))


def plane_similarity(a, b):
    """SSIM of one channel: Wang et al. 2004, windows of 11 x 11, a Gaussian of deviation 1.5, those within the image."""
    far = numpy.arange(11) - 5.0
    kernel = numpy.exp(-(far**2) / (2 * 1.5**2))
    kernel = numpy.outer(kernel, kernel) / kernel.sum() ** 2

    def mean(values):
        windows = numpy.lib.stride_tricks.sliding_window_view(values, (11, 11))
        return (windows * kernel).sum((2, 3))

    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    mean_a, mean_b = mean(a), mean(b)
    var_a, var_b, both = mean(a * a) - mean_a**2, mean(b * b) - mean_b**2, mean(a * b) - mean_a * mean_b
    return ((2 * mean_a * mean_b + c1) * (2 * both + c2) / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))).mean()


def similarity(a, b):
    """SSIM of (H, W, C) in [0, 255]: the mean of the channels'."""
    return float(numpy.mean([plane_similarity(a[..., c], b[..., c]) for c in range(a.shape[2])]))


def boundary_f1(truth, predicted, counts, classes, tolerance):
    """Of each class in two maps, by all pairs of boundary pixels: Csurka et al., BMVC 2013. None: neither map has the class."""

    def places(labels, c):
        mask = numpy.pad((labels == c) & counts, 1)
        inner = mask[1:-1, 1:-1]
        return numpy.argwhere(inner & ~(mask[:-2, 1:-1] & mask[2:, 1:-1] & mask[1:-1, :-2] & mask[1:-1, 2:]))

    def near(of, others):
        far = numpy.sqrt(((of[:, None].astype(float) - others[None]) ** 2).sum(2)).min(1)
        return (far <= tolerance * numpy.hypot(*truth.shape)).mean()

    figures = []
    for c in range(classes):
        a, b = places(truth, c), places(predicted, c)
        if len(a) == 0 or len(b) == 0:
            figures.append(None if len(a) == len(b) else 0.0)
            continue
        precision, recall = near(b, a), near(a, b)
        figures.append(float(2 * precision * recall / (precision + recall)) if precision + recall > 0 else 0.0)
    return figures
