"""Backbone torsions of the named molecules."""

from boltzkit.molecule import Backbone, find_molecule


def test_backbone_of_the_named_molecules():
    dipeptide = Backbone.of(find_molecule("alanine-dipeptide").topology)
    assert dipeptide.names == ("ALA2",)
    assert dipeptide.phi.tolist() == [[4, 6, 8, 14]]
    assert dipeptide.psi.tolist() == [[6, 8, 14, 16]]
    assert len(dipeptide.omega) == 2
    hexapeptide = find_molecule("alanine-hexapeptide")
    backbone = Backbone.of(hexapeptide.topology)
    assert len(backbone.phi) == 5
    assert len(backbone.omega) == 6
    x = hexapeptide.positions.expand(3, -1, -1)
    assert backbone.angles(x).shape == (3, 5, 2)
    assert not backbone.cis(x).any()
