"""The methods that the paper compares with: BFI, federated forests, RuleFit without federation."""
