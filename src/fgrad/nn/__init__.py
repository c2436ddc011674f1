"""Functions of neural networks: activations, softmax, normalization, convolution, pooling and losses.

They take arrays and Tensors like the functions of `fgrad.numpy`, keep float32, and
compute large arrays by compiled loops in several threads. Channels stand before space: (N, C, H, W).
`fgrad.nn.layers` and `fgrad.nn.initializers` put them together to networks.
"""

from fgrad.names import offered as _offered
from fgrad.nn.activations import celu as celu
from fgrad.nn.activations import elu as elu
from fgrad.nn.activations import gelu as gelu
from fgrad.nn.activations import glu as glu
from fgrad.nn.activations import hard_sigmoid as hard_sigmoid
from fgrad.nn.activations import hard_silu as hard_silu
from fgrad.nn.activations import hard_tanh as hard_tanh
from fgrad.nn.activations import leaky_relu as leaky_relu
from fgrad.nn.activations import log_sigmoid as log_sigmoid
from fgrad.nn.activations import mish as mish
from fgrad.nn.activations import relu as relu
from fgrad.nn.activations import relu6 as relu6
from fgrad.nn.activations import selu as selu
from fgrad.nn.activations import sigmoid as sigmoid
from fgrad.nn.activations import silu as silu
from fgrad.nn.activations import soft_sign as soft_sign
from fgrad.nn.activations import softplus as softplus
from fgrad.nn.activations import sparse_plus as sparse_plus
from fgrad.nn.activations import sparse_sigmoid as sparse_sigmoid
from fgrad.nn.attention import dot_product_attention as dot_product_attention
from fgrad.nn.convolution import conv as conv
from fgrad.nn.convolution import conv_transpose as conv_transpose
from fgrad.nn.exponentials import log_softmax as log_softmax
from fgrad.nn.exponentials import logsumexp as logsumexp
from fgrad.nn.exponentials import one_hot as one_hot
from fgrad.nn.exponentials import softmax as softmax
from fgrad.nn.losses import sigmoid_binary_cross_entropy as sigmoid_binary_cross_entropy
from fgrad.nn.losses import softmax_cross_entropy as softmax_cross_entropy
from fgrad.nn.noise import dropout as dropout
from fgrad.nn.normalization import batch_norm as batch_norm
from fgrad.nn.normalization import group_norm as group_norm
from fgrad.nn.normalization import layer_norm as layer_norm
from fgrad.nn.normalization import rms_norm as rms_norm
from fgrad.nn.normalization import standardize as standardize
from fgrad.nn.pooling import avg_pool as avg_pool
from fgrad.nn.pooling import max_pool as max_pool

hard_swish, swish = hard_silu, silu


def __dir__() -> list[str]:
    return _offered(globals())
